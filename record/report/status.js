'use strict';
// The state of a run's nodes: actors and queues, nodes, leases, events. It is a part of the live page and of a saved
// report.
(page => {
  const {element, count, percent, table, setText, setDisabled, refill} = page;

  // --- Values of a status, whose fields may be absent ---

  const number = value => typeof value === 'number' && Number.isFinite(value) ? value : 0;
  const list = value => Array.isArray(value) ? value.filter(one => one !== null && typeof one === 'object') : [];
  const kMaxName = 160;
  /// Characters without a shape, or that turn the direction of their neighbours, are shown as escapes.
  function printable(value, most = kMaxName) {
    const text = typeof value === 'string' ? value : value === null || value === undefined ? '' : String(value);
    const shown = text.slice(0, most + 1)
                    .replace(/[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g,
                      sign => '\\u' + sign.charCodeAt(0).toString(16).padStart(4, '0'));
    return shown.length > most ? shown.slice(0, most) + '…' : shown;
  }
  const named = value => element('bdi', {}, printable(value));
  function duration(seconds) {
    const s = Math.max(0, Math.round(seconds)), two = value => String(value).padStart(2, '0');
    if (s < 60) return s + ' s';
    if (s < 3600) return Math.floor(s / 60) + ' min ' + two(s % 60) + ' s';
    return Math.floor(s / 3600) + ' h ' + two(Math.floor(s / 60) % 60) + ' min';
  }
  const plural = (value, one) => count(value) + ' ' + one + (value === 1 ? '' : 's');
  /// Restarts of an actor: its own, and those of its process.
  const restartsOf = (node, actor) => number(actor.restarts) +
    Math.max(0, number(node.restarts) - list(node.actors).reduce((sum, one) => sum + number(one.restarts), 0));
  const roleOf = actor => printable(actor.name).split('/')[0];
  /// What all executors accept beyond what is in flight; null: the status has only some of the nodes.
  const credits = status => 'credits' in status ? number(status.credits)
    : total(status) > list(status.nodes).length
    ? null
    : list(status.nodes).reduce((sum, node) => sum + number(node.credits), 0);
  const total = status => Math.max(number(status.nodes_total), list(status.nodes).length);

  // --- Actors and queues ---

  const kStages = [
    {
      role: 'sampler',
      title: 'Samplers',
      does: 'draw placements',
      next: status => count(number(status.in_flight)) + ' in flight'
    },
    {
      role: 'dispatcher',
      title: 'Dispatcher',
      does: 'leases them',
      next: status => count(number((status.leases || {}).open)) + ' leases open' +
        (credits(status) === null ? '' : ', ' + count(credits(status)) + ' credits')
    },
    {
      role: 'executor',
      title: 'Executors',
      does: 'measure them',
      next: status => number(status.evaluations_per_s).toFixed(1) + ' a second'
    },
    {
      role: 'recorder',
      title: 'Recorder',
      does: 'writes them to disk',
      next: status =>
        number(status.disk_waits_s) >= 1 ? 'disk refuses for ' + duration(status.disk_waits_s) : 'disk accepts'
    },
    {role: 'tracker', title: 'Baseline tracker', does: 'scores them', next: () => 'episodes'}, {
      role: 'learner',
      title: 'Learner',
      does: 'updates the policy',
      next: status => plural(number(status.updates), 'update') + ', staleness ' + number(status.staleness).toFixed(1)
    }
  ];

  /// Sentences: which part of the run another part waits for.
  function waits(status) {
    const lines = [], executors = number(status.executors), wanted = number(status.executors_wanted);
    const free = credits(status), flying = number(status.in_flight);
    if (status.phase === 'ended') return ['The run is over: nothing waits.'];
    if (executors === 0)
      lines.push('No executor has joined' + (wanted > 0 ? '; ' + count(wanted) + ' would be busy.' : '.'));
    else if (free > 0)
      lines.push('Executors wait for placements: ' + plural(flying, 'placement') + ' in flight, and they accept ' +
        count(free) + ' more.');
    else if (free === 0 && flying > 0)
      lines.push('Placements wait for executors: ' + count(flying) + ' in flight, and no executor accepts more.');
    if (executors > 0 && wanted > executors)
      lines.push(plural(wanted - executors, 'more executor') + ' would be busy.');
    if (executors > 0 && wanted < executors && !status.ending && status.phase !== 'ended')
      lines.push(count(wanted) + ' of ' + plural(executors, 'executor') + ' would do the work that there is.');
    let longest = null;
    for (const node of list(status.nodes)) for (const actor of list(node.actors))
      if (number(actor.queue) > 0 && (!longest || actor.queue > longest.actor.queue)) longest = {node, actor};
    if (longest)
      lines.push(plural(longest.actor.queue, 'message') + (longest.actor.queue === 1 ? ' waits' : ' wait') + ' for ' +
        printable(longest.actor.name) + ' on ' + printable(longest.node.node) + ', the longest queue.');
    if (number(status.disk_waits_s) >= 1)
      lines.push('The recorder has waited for the disk for ' + duration(status.disk_waits_s) + '.');
    if (number(status.quarantined) > 0)
      lines.push(plural(status.quarantined, 'executor') + ' in quarantine after failures.');
    if (status.ending) lines.push('The run ends: ' + printable(status.ending) + '.');
    return lines;
  }

  const kMaxActors = 12;
  const kOwn = ['node', 'view', 'library'];  // Actors of every node, of interest only with an error or a queue.
  class Waits {
    constructor(place) {
      this.sentences = element('ul', {class: 'waits'});
      this.stages = kStages.map(stage => {
        const queue = element('b', {}), of = element('span', {}), next = element('span', {class: 'next'});
        return {
          stage,
          queue,
          of,
          next,
          item: element('li', {},
            element('div', {class: 'stage'}, element('h4', {}, stage.title), element('p', {}, stage.does),
              element('p', {class: 'queue'}, queue, ' waiting'), of),
            next)
        };
      });
      this.actors = element('div', {});
      place.append(element('section', {id: 'actors'}, element('h3', {}, 'Actors and queues'), this.sentences,
        element('ol',
          {class: 'flow', 'aria-label': 'The way of a placement through the actors; the last leads back to the first'},
          this.stages.map(stage => stage.item)),
        this.actors));
    }
    update(status) {
      const lines = waits(status);
      while (this.sentences.children.length > lines.length) this.sentences.lastChild.remove();
      while (this.sentences.children.length < lines.length) this.sentences.append(element('li', {}));
      lines.forEach((line, i) => setText(this.sentences.children[i], line));
      const actors = list(status.nodes).flatMap(node => list(node.actors).map(actor => ({
        node,
        actor,
        role: roleOf(actor),
        queue: number(actor.queue),
        restarts: restartsOf(node, actor)
      })));
      for (const {stage, queue, of, next, item} of this.stages) {
        const these = actors.filter(one => one.role === stage.role);
        const sum = field => these.reduce((all, one) => all + one[field], 0);
        const failed = sum('restarts'), waiting = sum('queue');
        const present = stage.role === 'executor' ? number(status.executors) : these.length;
        setText(queue, count(waiting));
        setText(of, plural(present, 'actor') + (failed > 0 ? ', ' + plural(failed, 'restart') : ''));
        setText(next, '→ ' + stage.next(status));
        item.classList.toggle('busy', waiting > 0);
        item.classList.toggle('failed', failed > 0);
      }
      const worth = ({actor, role, queue, restarts}) => (actor.last_error ? 4e9 : 0) + Math.min(restarts, 1e6) * 1e3 +
        queue + (role === 'executor' ? 0 : 0.5);  // Of two that wait alike, the one that others depend on.
      const rows = actors.filter(one => one.actor.last_error || one.queue > 0 || !kOwn.includes(one.role))
                     .sort((a, b) => worth(b) - worth(a))
                     .slice(0, kMaxActors);
      const left = actors.length - rows.length, listed = list(status.nodes).length, unseen = total(status) - listed;
      refill(this.actors,
        table('Actors with errors, restarts or the longest queues first' +
            (left > 0 ? '; ' + count(left) + ' more are in the nodes below' : '') +
            (unseen > 0 ? '; of ' + count(listed) + ' nodes out of ' + count(total(status)) : ''),
          ['Actor', 'Node', 'Queue', 'Restarts', 'Last error'],
          rows.map(({node, actor, queue, restarts}) => [named(actor.name), named(node.node), count(queue),
                     count(restarts), named(actor.last_error)]),
          'names'));
    }
  }

  // --- Nodes, page by page ---

  const kPage = 40;  // Nodes of a page; as many as an update of the live page has.
  const kColumns = [
    {key: 'node', head: 'Node', by: 'name'}, {key: 'host', head: 'Host'}, {
      key: 'roles',
      head: 'Roles',
      text: node => (Array.isArray(node.roles) ? node.roles : []).map(role => printable(role, 20)).join(', ')
    },
    {key: 'executors', head: 'Executors'},
    {key: 'utilisation', head: 'Busy', by: '-busy', text: node => percent(number(node.utilisation)), executes: true}, {
      key: 'evaluations_per_s',
      head: 'Placements/s',
      by: '-rate',
      text: node => number(node.evaluations_per_s).toFixed(1),
      executes: true
    },
    {key: 'in_flight', head: 'In flight', executes: true}, {key: 'credits', head: 'Credits', executes: true},
    {key: 'queue', head: 'Queue', by: '-queue'}, {key: 'restarts', head: 'Restarts', by: '-restarts'}, {
      key: 'heartbeat_age_s',
      head: 'Last seen',
      by: '-seen',
      text: node => number(node.heartbeat_age_s).toFixed(1) + ' s ago'
    },
    {key: 'last_error', head: 'Last error'}
  ];
  const cellText = (column, node) => column.executes && number(node.executors) === 0 ? '–'
    : column.text                                                                    ? column.text(node)
    : typeof node[column.key] === 'number'                                           ? count(node[column.key])
                                                                                     : printable(node[column.key]);
  const reversed = by => by.startsWith('-') ? by.slice(1) : '-' + by;
  const columnOf = by => kColumns.find(column => column.by === by || column.by === reversed(by));
  /// A sign before the name of an order turns it.
  function sorted(nodes, by) {
    if (by === '') return nodes;
    const {key} = columnOf(by), sign = by.startsWith('-') ? -1 : 1;
    return [...nodes].sort((a, b) => sign * (key !== 'node' ? number(a[key]) - number(b[key])
      : printable(a[key]) < printable(b[key]) ? -1 : 1));
  }
  const troubled = node => Boolean(node.last_error) || number(node.restarts) > 0;
  const contains =
    (node, wanted) => [node.node, node.host, node.last_error, ...(Array.isArray(node.roles) ? node.roles : [])].some(
      value => typeof value === 'string' && value.toLowerCase().includes(wanted));

  class Nodes {
    /// `remote`: returns a promise of {nodes, found} for {offset, limit, sort, find}; null: the status has all nodes
    /// that there are to be seen.
    constructor(place, remote) {
      this.remote = remote;
      this.offset = 0, this.sort = '', this.find = '';
      this.rows = new Map(), this.opened = new Set();
      this.status = {}, this.answer = null, this.asked = null, this.timer = 0;
      this.count = element('span', {role: 'status'});
      this.note = element('p', {class: 'read'});
      const find = element('input', {
        type: 'search',
        size: 24,
        spellcheck: false,
        autocomplete: 'off',
        oninput: () => {
          clearTimeout(this.typed);
          this.typed = setTimeout(() => this.turn({find: find.value.trim(), offset: 0}), 200);
        }
      });
      this.before = element('button',
        {type: 'button', onclick: () => this.turn(this.offset > 0 ? {offset: this.offset - kPage} : {sort: ''})},
        '← Previous');
      this.after = element('button', {
        type: 'button',
        onclick: () => {
          if (this.further) this.turn(this.further);
        }
      },
        'Next →');
      this.heads = kColumns.map(column => element('th', {scope: 'col'},
                                  column.by
                                    ? element('button', {
                                        type: 'button',
                                        onclick: () => this.turn({
                                          sort: this.sort === column.by                          ? reversed(column.by)
                                            : this.sort === '' || columnOf(this.sort) !== column ? column.by
                                                                                                 : '',
                                          offset: 0
                                        })
                                      },
                                        column.head)
                                    : column.head));
      this.body = element('tbody', {});
      place.append(element('section', {id: 'nodes'}, element('h3', {}, 'Nodes'),
        element('div', {class: 'tools'}, element('label', {}, 'Find ', find), this.count,
          element('span', {class: 'gap'}), this.before, this.after),
        element('div', {class: 'scroll'},
          element('table', {class: 'sortable nodes'},
            element('caption', {}, 'A name opens the actors of its node; a head sorts'),
            element('thead', {}, element('tr', {}, this.heads)), this.body)),
        this.note));
    }
    turn(change) {
      Object.assign(this, change);
      this.answer = null;
      this.draw();
      this.ask();
    }
    /// Whether the status does not have what is shown.
    get elsewhere() {
      return this.remote !== null && total(this.status) > list(this.status.nodes).length &&
        (this.offset > 0 || this.sort !== '' || this.find !== '');
    }
    update(status) {
      this.status = status;
      this.draw();
      if (this.elsewhere && !this.asked && !this.timer && !document.hidden) this.ask();
    }
    /// One request at a time, and the next a second later at the earliest, with the next status.
    async ask() {
      clearTimeout(this.timer);
      this.timer = 0;
      this.asked?.abort();
      this.asked = null;
      if (!this.elsewhere) return;
      const asked = this.asked = new AbortController(), {offset, sort, find} = this;
      try {
        const answer = await this.remote({offset, limit: kPage, sort, find}, asked.signal);
        if (this.asked !== asked) return;
        this.answer = answer, this.failed = null;
      } catch (error) {
        if (this.asked !== asked) return;
        this.failed = error.message;
      }
      this.asked = null;
      this.timer = setTimeout(() => { this.timer = 0; }, 1000);
      this.draw();
    }
    get all() {
      return sorted(this.find === '' ? list(this.status.nodes)
                                     : list(this.status.nodes).filter(node => contains(node, this.find.toLowerCase())),
        this.sort);
    }
    draw() {
      const away = this.elsewhere, all = away ? null : this.all;
      const nodes = away ? (this.answer ? list(this.answer.nodes) : null) : all.slice(this.offset, this.offset + kPage);
      // Without a filter the first page of the live status is the first of all of them.
      this.total = away ? (this.answer ? number(this.answer.found) : total(this.status)) : all.length;
      if (this.offset >= Math.max(this.total, 1)) {  // Nodes have left: back to the last page.
        const offset = Math.max(0, this.total - 1);
        return this.turn({offset: offset - offset % kPage});
      }
      if (nodes) this.show(nodes);
      const last = this.offset + (nodes ? nodes.length : 0),
            unseen = away ? 0 : total(this.status) - list(this.status.nodes).length;
      // The nodes that an update has are not the first by name: the next page is the first of all.
      const some = this.remote !== null && unseen > 0;
      this.further = last < this.total ? {offset: this.offset + kPage} : some ? {sort: 'name', offset: 0} : null;
      setText(this.after, some ? 'All by name →' : 'Next →');
      setText(this.count,
        away && !nodes       ? 'Asking for these nodes …'
          : this.total === 0 ? (this.find                          ? 'No node has this text.'
                                   : this.status.phase === 'ended' ? 'No node is left.'
                                                                   : 'No node yet.')
          : some ? count(this.total) + ' of ' + count(total(this.status)) + ' nodes: the head, then errors and restarts'
                 : count(this.offset + 1) + ' to ' + count(last) + ' of ' + count(this.total) +
            (unseen > 0 ? '; the run had ' + count(total(this.status)) : ''));
      setDisabled(this.before, this.offset === 0 && (!away || this.find !== ''));
      setDisabled(this.after, !this.further);
      const age = number(this.status.nodes_age_s);
      setText(this.note,
        this.failed && away
          ? 'These nodes could not be read: ' + printable(this.failed) + '. They are as they were before.'
          : age > 5 ? 'The head has not reported its nodes for ' + duration(age) + '.'
                    : '');
      kColumns.forEach((column, i) => {
        if (column.by)
          this.heads[i].setAttribute('aria-sort',
            this.sort === '' || columnOf(this.sort) !== column ? 'none'
              : this.sort.startsWith('-')                      ? 'descending'
                                                               : 'ascending');
      });
    }
    show(nodes) {
      const focus = document.activeElement, rows = [], had = new Set();
      for (const node of nodes) {
        let key = printable(node.node);
        while (had.has(key)) key += ' ';
        had.add(key);
        const row = this.rows.get(key) || this.row(key);
        this.rows.set(key, row);
        kColumns.forEach((column, i) => setText(row.cells[i], cellText(column, node)));
        row.line.classList.toggle('failed', troubled(node));
        const open = this.opened.has(key);
        row.cells[0].setAttribute('aria-expanded', String(open));
        rows.push(row.line);
        if (!open) continue;
        this.detail(row, node);
        rows.push(row.more);
      }
      for (const [key] of this.rows) if (!had.has(key)) this.rows.delete(key);
      rows.forEach((row, i) => {
        if (this.body.children[i] !== row) this.body.insertBefore(row, this.body.children[i] || null);
      });
      while (this.body.children.length > rows.length) this.body.lastChild.remove();
      if (focus !== document.activeElement && this.body.contains(focus)) focus.focus({preventScroll: true});
    }
    row(key) {
      const cells = kColumns.map((column, i) => i === 0 ? element('button', {type: 'button', onclick: () => {
        if (!this.opened.delete(key)) this.opened.add(key);
        this.draw();
      }}) : element('bdi', {}));
      const line =
        element('tr', {}, cells.map((cell, i) => element(i === 0 ? 'th' : 'td', i === 0 ? {scope: 'row'} : {}, cell)));
      return {cells, line, inside: element('td', {colSpan: kColumns.length})};
    }
    detail(row, node) {
      row.more = row.more || element('tr', {class: 'more'}, row.inside);
      const facts = [['version', printable(node.version)], ['process', 'pid' in node ? String(node.pid) : ''],
        ['runs for', 'uptime_s' in node ? duration(number(node.uptime_s)) : ''],
        ...['measurements', 'sent', 'received', 'refused', 'dropped', 'peers_lost'].map(key =>
          [key.replace('_', ' '), key in node ? count(number(node[key])) : ''])].filter(([, value]) => value !== '');
      refill(row.inside, element('p', {}, facts.map(fact => fact.join(' ')).join(' · ')),
        table(number(node.actors_total) > list(node.actors).length
            ? count(list(node.actors).length) + ' of its ' + count(node.actors_total) + ' actors'
            : 'Its actors',
          ['Actor', 'Queue', 'Restarts', 'Last error'],
          list(node.actors)
            .map(actor => [named(actor.name), count(number(actor.queue)), count(number(actor.restarts)),
                   named(actor.last_error)]),
          'names'));
    }
  }

  // --- Leases and events ---

  const kLeases = [
    ['issued', 'leases issued'], ['counted', 'counted'], ['open', 'open'],
    ['expired', 'expired: their work went to another executor'],
    ['refused', 'refused: another executor was first, or given back']
  ];
  class Leases {
    constructor(place) {
      const card = name => {
        const value = element('dd', {});
        return {value, card: element('div', {class: 'card'}, value, element('dt', {}, name))};
      };
      this.leases = kLeases.map(([key, name]) => ({key, ...card(name)}));
      this.others = [['refused_results', 'results that did not count'], ['duplicated', 'placements consumed twice'],
        ['quarantined', 'executors in quarantine']].map(([key, name]) => ({key, ...card(name)}));
      place.append(element('section', {id: 'leases'}, element('h3', {}, 'Leases'),
        element('dl', {class: 'cards'}, [...this.leases, ...this.others].map(one => one.card))));
    }
    update(status) {
      for (const {key, value} of this.leases) setText(value, count(number((status.leases || {})[key])));
      for (const {key, value, card} of this.others) {
        setText(value, count(number(status[key])));
        card.classList.toggle('bad', number(status[key]) > 0 && key !== 'refused_results');
      }
    }
  }
  class Events {
    constructor(place) {
      this.list = element('ol', {class: 'events'});
      this.none = element('p', {class: 'read'}, 'None so far.');
      this.restarts = element('p', {class: 'read'});
      place.append(
        element('section', {id: 'events'}, element('h3', {}, 'Events'), this.none, this.list, this.restarts));
    }
    update(status) {
      const events = list(status.events).slice(-100).reverse();
      const key = JSON.stringify(events);
      if (key !== this.key) {
        this.key = key;
        refill(this.list,
          events.map(event => element('li', {}, element('span', {class: 'at'}, duration(number(event.at_s))),
                       element('bdi', {}, printable(event.text, 600)))));
      }
      this.none.hidden = events.length > 0;
      const restarts = Object.entries(status.restarts || {}).filter(([, times]) => number(times) > 0);
      setText(this.restarts,
        restarts.length === 0 ? ''
                              : 'Processes that were started again: ' +
            restarts.slice(0, 50).map(([name, times]) => printable(name, 60) + ' ' + plural(times, 'time')).join(', ') +
            '.');
    }
  }

  /// All of it, in `place`.
  class State {
    constructor(place, remote = null) {
      this.parts = [new Waits(place), new Nodes(place, remote), new Leases(place), new Events(place)];
    }
    update(status) { for (const part of this.parts) part.update(status); }
  }

  /// The last state that a saved report has.
  function showState(place, status) {
    place.append(
      element('h2', {}, status.phase === 'ended' ? 'The run at its end' : 'The run when this page was written'));
    if (status.why_idle) place.append(element('p', {class: 'going-on'}, printable(status.why_idle, 400)));
    new State(place).update(status);
  }

  Object.assign(page, {State, showState, number, list, printable, duration, plural});
})(emplacePage);
