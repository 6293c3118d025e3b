'use strict';
// The page of a run in progress: draws what /events sends, and the report as soon as it is there.
(page => {
  const {time, count, percent, element, asTable, table, colours, redraws, markLines, tickOfMs, plotLook, refill,
    setText, number, list, printable, duration, plural} = page;
  const at = id => document.getElementById(id);
  const now = () => performance.now() / 1e3;

  // --- The headline ---

  const kPhases = {
    starting: 'Starting',
    heuristics: 'Heuristics place the graph',
    running: 'Running',
    ending: 'Ending',
    ended: 'The run is over'
  };
  const kCards = ['heuristic', 'bound', 'left', 'measured', 'rate', 'executors'];
  const cards = Object.fromEntries(kCards.map(name => {
    const value = element('dd', {}), text = element('dt', {}), card = element('div', {class: 'card'}, value, text);
    at('cards').append(card);
    return [
      name, {
        card,
        set(shown, about, tone = '') {
          setText(value, shown);
          setText(text, about);
          card.className = 'card ' + tone;
        }
      }
    ];
  }));
  const ns = seconds => time(seconds * 1e9);
  const more = share => (share < 0 ? '−' : '+') + percent(Math.abs(share));
  function headline(status) {
    const best = number(status.best_step_time_s), bound = number(status.bound_s), heuristic = status.heuristic || {};
    const other = number(heuristic.step_time_s), starts = Array.isArray(status.starts) ? status.starts : [];
    const name = printable(String(status.run_dir ?? '').replace(/\/+$/, '').split('/').pop() || status.run_dir);
    setText(at('run'), name);
    setText(at('best'), best > 0 ? ns(best) + ' per step' : 'No placement that fits yet');
    document.title = (best > 0 ? ns(best) + ' · ' : '') + name + ' · emplace';
    const number_of = starts.length > 1 ? ' (' + (starts.indexOf(status.start) + 1) + ' of ' + starts.length + ')' : '';
    setText(at('headline'),
      [
        kPhases[status.phase] || printable(status.phase),
        printable(status.method) + (status.graph ? ' on ' + printable(status.graph) : ''),
        status.start ? 'start ' + printable(status.start) + number_of : '', 'for ' + duration(number(status.elapsed_s))
      ].filter(part => part.trim() !== '')
          .join(' · ') +
        (status.ending ? ' · ends: ' + printable(status.ending) : ''));
    const idle = printable(status.why_idle, 400);
    at('idle').hidden = idle === '';
    setText(at('idle'), idle.charAt(0).toUpperCase() + idle.slice(1) + (/[.!?]$/.test(idle) ? '' : '.'));
    if (best > 0 && other > 0)
      cards.heuristic.set(more(best / other - 1),
        'compared with ' + printable(heuristic.method, 60) + ', the best heuristic, ' + ns(other),
        best < other     ? 'good'
          : best > other ? 'bad'
                         : '');
    else
      cards.heuristic.set(other > 0 ? ns(other) : '–',
        other > 0 ? printable(heuristic.method, 60) + ', the best heuristic' : 'best heuristic not known yet');
    if (bound > 0)
      cards.bound.set(best > 0 ? more(best / bound - 1) : ns(bound),
        best > 0 ? 'above the proven bound, ' + ns(bound) : 'the proven bound');
    else cards.bound.set('–', 'no proven bound yet');
    const budget = number(status.budget_s), left = budget - number(status.elapsed_s);
    if (status.phase === 'ended') cards.left.set('over', 'after ' + duration(number(status.elapsed_s)));
    else if (budget > 0) cards.left.set(duration(left), 'left of ' + duration(budget));
    else cards.left.set(duration(number(status.elapsed_s)), 'so far, without a limit of time');
    const episodes = number(status.episodes), elapsed = number(status.elapsed_s),
          measured = number(status.measurements);
    cards.measured.set(
      count(measured), 'placements measured' + (episodes > 0 ? ', in ' + plural(episodes, 'episode') : ''));
    if (status.phase === 'ended')
      cards.rate.set(elapsed > 0 ? (measured / elapsed).toFixed(1) : '–', 'placements measured a second, on average');
    else cards.rate.set(number(status.evaluations_per_s).toFixed(1), 'placements measured a second');
    cards.executors.card.hidden = status.phase === 'ended';
    cards.executors.set(count(number(status.executors)),
      'executors joined; ' + count(number(status.executors_wanted)) + ' would be busy',
      number(status.executors) === 0 && status.phase === 'running' ? 'bad' : '');
  }

  // --- The course of the run, as far as this page has seen it ---

  const kMostSamples = 720;
  /// One start of the run. Once there are too many samples every second one goes, so that the whole start is there.
  class Course {
    constructor() { this.samples = [], this.gap = 0, this.key = ''; }
    add(status) {
      const key = status.run_dir + '\n' + status.start, t = number(status.elapsed_s), samples = this.samples;
      if (key !== this.key || (samples.length && t < samples.at(-1).t)) this.samples = [], this.gap = 0, this.key = key;
      const sample = {t, best: number(status.best_step_time_s) * 1e3 || null, rate: number(status.evaluations_per_s),
        joined: number(status.executors), wanted: number(status.executors_wanted)};
      const last = this.samples.at(-2);
      if (last && t - last.t < this.gap) this.samples.pop();
      this.samples.push(sample);
      if (this.samples.length <= kMostSamples) return;
      this.samples = this.samples.filter((_, i) => i % 2 === 0 || i === this.samples.length - 1);
      this.gap = 2 * (this.gap || t / kMostSamples);
    }
  }
  const course = new Course();
  let history = [];  // [seconds, ms] of the start in the report, from before this page was opened.
  class Plots {
    constructor(place) {
      const plot = kind => element('div', {class: 'plot ' + kind, role: 'img'});
      this.best = plot('middle'), this.rate = plot('low'), this.executors = plot('low'),
      this.marks = element('div', {class: 'marks'});
      this.title = element('div', {class: 'plot-title'}), this.tables = element('div', {});
      this.titles = [element('div', {class: 'plot-title'}), element('div', {class: 'plot-title'})];
      place.append(
        element('div', {class: 'chart'}, this.title, element('div', {class: 'with-marks'}, this.best, this.marks),
          element('div', {class: 'pair'}, element('div', {}, this.titles[0], this.rate),
            element('div', {}, this.titles[1], this.executors)),
          this.tables));
      redraws.add({
        container: place,
        draw: () => {
          for (const chart of this.charts || []) chart.destroy();
          this.charts = null;
          this.draw();
        }
      });
    }
    /// The samples, and the history where there are none: before the first, and while the page was not connected.
    rows() {
      const rows = [], samples = course.samples, kApart = Math.max(5, 2 * course.gap);
      let k = 0;
      samples.forEach((sample, i) => {
        const apart = i === 0 || sample.t - samples[i - 1].t > kApart;
        for (; k < history.length && history[k][0] < sample.t; ++k) if (apart) rows.push(history[k]);
        rows.push([sample.t, sample.best]);
      });
      return rows;
    }
    make() {
      const common = {...plotLook(), interactionModel: {}, showRoller: false, connectSeparatedPoints: true};
      const x = {
        axisLabelFormatter: t => duration(t).replace(/ 00 (s|min)$/, ''),
        axisLabelWidth: 90,
        pixelsPerLabel: 110
      };
      const y = {axisLabelWidth: 64, pixelsPerLabel: 25};
      const whole = v => Number.isInteger(v) ? count(v) : '';
      this.charts = [
        new Dygraph(this.best, [[0, null]], {
          ...common,
          labels: ['t', 'best'],
          stepPlot: true,
          strokeWidth: 2.4,
          colors: [colours.devices[0]],
          axes: {x, y: {...y, axisLabelFormatter: tickOfMs}},
          underlayCallback: (context, area, chart) => this.lines(context, area, chart)
        }),
        new Dygraph(this.rate, [[0, 0]], {
          ...common,
          labels: ['t', 'rate'],
          fillGraph: true,
          fillAlpha: 0.15,
          strokeWidth: 1.4,
          colors: [colours.devices[2]],
          axes: {x, y}
        }),
        new Dygraph(this.executors, [[0, 0, 0]], {
          ...common,
          labels: ['t', 'joined', 'wanted'],
          stepPlot: true,
          strokeWidth: 1.6,
          colors: [colours.devices[0], colours.devices[4]],
          series: {wanted: {strokePattern: [4, 3]}},
          axes: {x, y: {...y, axisLabelFormatter: whole}}
        })
      ];
      for (const canvas of this.charts.flatMap(chart => [...chart.graphDiv.querySelectorAll('canvas')]))
        canvas.setAttribute('aria-hidden', 'true');
    }
    /// The best heuristic and the bound.
    levels() {
      const status = this.status || {}, heuristic = status.heuristic || {};
      return [
        {
          label: printable(heuristic.method, 40) + '  ' + ns(number(heuristic.step_time_s)),
          value: number(heuristic.step_time_s) * 1e3,
          colour: colours.soft
        },
        {
          label: 'proven bound  ' + ns(number(status.bound_s)),
          value: number(status.bound_s) * 1e3,
          colour: colours.ink,
          dash: [2, 3]
        }
      ].filter(line => line.value > 0);
    }
    lines(context, area, chart) { markLines(context, area, chart, this.marks, this.levels()); }
    range(rows) {
      const bests = rows.map(row => row[1]).filter(v => v !== null), levels = this.levels().map(line => line.value);
      const known = [...levels, ...bests.slice(-1)];
      if (known.length === 0) return [0, 1];
      const low = Math.min(...known), usual = bests.length ? bests[Math.floor(bests.length * 0.1)] : 0;
      const high = Math.max(...known, usual);
      return [low - (high - low || low) * 0.1, high + (high - low || low) * 0.15];
    }
    draw(status = this.status) {
      this.status = status;
      if (document.hidden || !course.samples.length) return;
      if (!this.charts) this.make();
      const rows = this.rows(), samples = course.samples, last = samples.at(-1),
            window = [rows[0][0], Math.max(last.t, rows[0][0] + 10)];
      this.charts[0].updateOptions({file: rows, valueRange: this.range(rows), dateWindow: window});
      const most = (...fields) => Math.max(1, ...samples.flatMap(sample => fields.map(field => sample[field]))) * 1.12;
      this.charts[1].updateOptions(
        {file: samples.map(s => [s.t, s.rate]), valueRange: [0, most('rate')], dateWindow: window});
      this.charts[2].updateOptions({
        file: samples.map(s => [s.t, s.joined, s.wanted]),
        valueRange: [0, most('joined', 'wanted')],
        dateWindow: window
      });
      const since = history.length && history[0][0] < samples[0].t
        ? ''
        : ', since ' + duration(samples[0].t) + ' into the run, when this page was opened';
      setText(this.title, 'Best step time so far' + (samples[0].t > 5 ? since : ''));
      setText(this.titles[0], 'Placements measured a second: ' + last.rate.toFixed(1));
      setText(this.titles[1],
        'Executors: ' + count(last.joined) + ' joined, ' + count(last.wanted) + ' would be busy (dashed)');
      this.best.setAttribute('aria-label',
        'Best step time so far: ' + (last.best ? ns(last.best / 1e3) : 'none') + ' after ' + duration(last.t));
      this.rate.setAttribute('aria-label', this.titles[0].textContent);
      this.executors.setAttribute('aria-label', this.titles[1].textContent);
      const step = Math.max(1, Math.ceil(samples.length / 20));
      refill(this.tables,
        asTable('These plots as a table',
          table('Since this page was opened', ['Into the run', 'Best so far', 'Placements/s', 'Joined', 'Wanted'],
            samples.filter((_, i) => (samples.length - 1 - i) % step === 0)
              .map(s => [duration(s.t), s.best ? ns(s.best / 1e3) : '', s.rate.toFixed(1), count(s.joined),
                     count(s.wanted)]))));
    }
  }

  // --- The report ---

  const report = new page.Report(at('report-parts'));
  const kAgain = 10;  // After a failure the report is asked for again [s].
  let shown = null, wanted = null, reportOf = '', fetching = false, failedAt = -Infinity, historyOf = '';
  /// The curve of best step times of the start that runs, from the learning curves of the report.
  function takeHistory(status) {
    const starts = Array.isArray(status.starts) ? status.starts : [], graph = report.data && report.data.graphs[0];
    const curve = graph && graph.curves[Math.max(0, starts.indexOf(status.start))];
    history = curve && curve.wall
      ? curve.wall.map((ms, i) => [ms / 1e3, curve.best[i] === null ? null : curve.best[i] / 1e6])
      : [];
  }
  function sayReport() {
    const failure = printable(status && status.report_failure, 300);
    setText(at('report-state'),
      failure             ? 'The report cannot be read now: ' + failure + '.'
        : reportOf === '' ? 'The report has not arrived yet.'
                          : 'The report as of ' + reportOf +
          (status && status.phase === 'ended' ? '.' : '; a newer one follows while the run continues.'));
  }
  async function fetchReport() {
    if (fetching || document.hidden || wanted === shown || now() - failedAt < kAgain) return;
    fetching = true;
    const version = wanted;
    try {
      const answer = await fetch('report.json', {cache: 'no-store'});
      if (!answer.ok) throw new Error((await answer.text()).trim().slice(0, 200) || 'status ' + answer.status);
      const made = await answer.json();
      const drawn = report.update(made.main, made.data);
      shown = version;
      takeHistory(status);
      plots.draw();
      reportOf = printable(made.written);
      sayReport();
      await drawn;
      at('report').dataset.version = version;
    } catch (error) {
      failedAt = now();
      setText(at('report-state'),
        'The report could not be read: ' + printable(error.message, 200) +
          (shown === null ? '' : '. The one below is older.'));
    }
    fetching = false;
    fetchReport();
  }

  // --- The connection ---

  const kHidden = 30;  // A hidden page disconnects after this time [s].
  const kLate = 4, kDead = 20;  // Without a message [s]: stated; the connection is made again.
  const connection =
    {source: null, opened: 0, seen: null, closed: false, paused: false, hidden: 0, retry: 1, sign: false};
  function connect() {
    connection.source?.close();
    connection.closed = connection.paused = false;
    connection.opened = now();
    const source = connection.source = new EventSource('events');
    const take = (name, act) => source.addEventListener(name, event => {
      if (source !== connection.source) return;
      connection.seen = now(), connection.retry = 1;
      act(JSON.parse(event.data || '{}'));
      tell();
    });
    take('status', take_status);
    take('report', data => { wanted = data.version; fetchReport(); });
    take('ended', () => {});
    source.addEventListener('error', () => {
      if (source !== connection.source) return;
      // A browser connects again by itself after a broken connection, but not after an answer that is an error.
      if (source.readyState === EventSource.CLOSED) retry();
      tell();
    });
  }
  async function retry() {
    connection.closed = true;
    connection.source.close();
    const wait = connection.retry;
    connection.retry = Math.min(10, 2 * wait);
    setTimeout(async () => {
      try {
        const answer = await fetch('status.json', {cache: 'no-store'});
        connection.sign = answer.status === 401 || answer.status === 403;
      } catch { connection.sign = false; }
      connect();
    }, wait * 1e3);
  }
  function tell() {
    const place = at('connection'),
          quiet = connection.seen === null ? now() - connection.opened : now() - connection.seen;
    const open = connection.source.readyState === EventSource.OPEN && !connection.closed;
    const ago = 'last seen ' + duration(quiet) + ' ago';
    const [state, text] = status && status.phase === 'ended'
      ? ['ended', 'The run is over. This page shows its last state.']
      : connection.sign ? ['lost', 'The launcher asks for its token again: load this page again.']
      : open && connection.seen !== null && quiet < kLate ? ['live', 'Connected']
      : open && connection.seen !== null                  ? ['late', 'Connected, but without an update: ' + ago + '.']
      : connection.seen !== null ? ['lost', 'Connection lost, ' + ago + '; connecting again …']
      : quiet < kLate            ? ['connecting', 'Connecting …']
                      : ['lost', 'No answer from the launcher for ' + duration(quiet) + '; connecting again …'];
    place.dataset.state = state;
    setText(place, text);
    document.body.classList.toggle('stale', state === 'lost');
  }
  setInterval(() => {
    const quiet = now() - Math.max(connection.opened, connection.seen ?? 0);
    if (connection.paused) return;
    if (!connection.closed && quiet > kDead) connect();
    tell();
  }, 1000);
  // A browser has six connections to a port: a hidden tab gives its own back.
  document.addEventListener('visibilitychange', () => {
    clearTimeout(connection.hidden);
    if (document.hidden) {
      connection.hidden = setTimeout(() => { connection.paused = true, connection.source.close(); }, kHidden * 1e3);
      return;
    }
    if (connection.paused) connect();
    if (status) draw();
    fetchReport();
  });

  let status = null, drawing = 0;
  const plots = new Plots(at('course'));
  const state = new page.State(at('state'), async ({offset, limit, sort, find}, signal) => {
    const query = new URLSearchParams({offset, limit, ...(sort && {sort}), ...(find && {find})});
    const answer = await fetch('nodes.json?' + query, {cache: 'no-store', signal});
    if (!answer.ok) throw new Error((await answer.text()).trim().slice(0, 200) || 'status ' + answer.status);
    return answer.json();
  });
  function draw() {
    headline(status);
    if (now() - failedAt > kAgain) sayReport();
    plots.draw(status);
    state.update(status);
  }
  function take_status(next) {
    const other = status && (next.run_dir !== status.run_dir || (status.phase === 'ended' && next.phase !== 'ended'));
    status = next;
    if (other) wanted = shown = null, history = [], failedAt = -Infinity;
    if (historyOf !== status.start) historyOf = status.start, takeHistory(status);
    course.add(status);
    if (!document.hidden && !drawing)
      drawing = requestAnimationFrame(() => {
        drawing = 0;
        if (document.hidden) return;
        draw();
        if (!page.root.dataset.ready) page.ready();
      });
  }
  connect();
  tell();
})(emplacePage);
