'use strict';
// The graph, collapsed by scope.
(page => {
  const {time, bytes, count, percent, kPhases, element, table, asTable, showTip, colours, deviceColour, inkOn,
    redraws, kFont, prepared, fitted, refill} = page;
  const {deviceName, levelsOf, folded} = page.step;

  class Collapsed {
    /// `previous`: the state of an older report, whose choices stay.
    constructor(graph, previous = null) {
      this.graph = graph, this.map = graph.task.map;
      this.fold = this.map.scopes.some(path => /(^|\/)t\d+(\/|$)/.test(path));
      this.foldable = this.fold;
      this.split = new Set(this.map.phase).size > 1;
      this.splittable = this.split;
      this.expanded = new Set();
      if (previous) {
        this.fold &&= previous.fold, this.split &&= previous.split, this.expanded = previous.expanded;
        this.weigh();
        return;
      }
      this.weigh();
      this.expandHeaviest(30);
      if (this.boxes().boxes.length < 10) this.expandHeaviest(60);
    }
    /// Time and children of every scope and its parents.
    weigh() {
      this.levels = this.map.scopes.map(path => {
        const list = this.fold ? folded(path) : levelsOf(path);
        return list.length ? list : ['(no scope)'];
      });
      this.children = new Map(), this.weight = new Map();
      const ns = new Float64Array(this.map.scopes.length);
      this.map.scope.forEach((scope, node) => {
        const on = this.map.on[node];
        for (let k = 2; k < on.length; k += 3) ns[scope] += on[k] + 1;
      });
      this.levels.forEach((list, scope) => {
        for (let depth = 1; depth <= list.length; ++depth) {
          const path = list.slice(0, depth).join('/');
          this.weight.set(path, (this.weight.get(path) || 0) + ns[scope]);
          const parent = list.slice(0, depth - 1).join('/');
          if (!this.children.has(parent)) this.children.set(parent, new Set());
          this.children.get(parent).add(path);
        }
      });
      this.expanded = new Set([...this.expanded].filter(path => this.children.has(path)));
    }
    canExpand(path) { return this.children.has(path); }
    expandHeaviest(most) {
      for (;;) {
        const boxes = this.boxes().boxes;
        const next = [...new Set(boxes.map(box => box.path))]
                       .filter(path => this.canExpand(path))
                       .sort((a, b) => this.weight.get(b) - this.weight.get(a))
                       .find(path => this.children.get(path).size > 1 &&
                           boxes.length + this.children.get(path).size * (this.split ? 2 : 1) <= most);
        if (next === undefined) return;
        this.expanded.add(next);
      }
    }
    boxes() {
      const byKey = new Map(), boxOf = [];
      this.map.scope.forEach((scope, node) => {
        const list = this.levels[scope];
        let depth = 1;
        while (depth < list.length && this.expanded.has(list.slice(0, depth).join('/'))) ++depth;
        const path = list.slice(0, depth).join('/');
        const own = this.expanded.has(path);  // Ops directly in the scope.
        const phase = this.split ? this.map.phase[node] : 0;
        const key = path + (own ? '/' : '') + ' ' + phase;
        let box = byKey.get(key);
        if (!box) {
          box = {
            key,
            path: own ? path + '/' : path,
            phase,
            label: list.slice(Math.max(0, depth - 2), depth).join('/') + (own ? ' (itself)' : ''),
            ops: 0,
            ns: 0,
            level: 0,
            state: 0,
            onNs: new Float64Array(this.graph.devices.length),
            onOps: new Float64Array(this.graph.devices.length),
            inner: 0,
            name: own ? path : path
          };
          byKey.set(key, box);
        }
        box.ops += this.map.ops[node], box.level += this.map.level[node] * this.map.ops[node],
          box.state += this.map.state[node];
        const on = this.map.on[node];
        for (let k = 0; k < on.length; k += 3)
          box.onOps[on[k]] += on[k + 1], box.onNs[on[k]] += on[k + 2], box.ns += on[k + 2];
        boxOf[node] = box;
      });
      const boxes = [...byKey.values()];
      for (const box of boxes) box.level /= box.ops;
      boxes.sort((a, b) => a.level - b.level || (a.key < b.key ? -1 : 1));
      boxes.forEach((box, i) => { box.i = i; });
      const edges = new Map(), from = this.map.edges;
      for (let e = 0; e < from.source.length; ++e) {
        const a = boxOf[from.source[e]], b = boxOf[from.target[e]];
        if (a === b) { a.inner += from.cut[e]; continue; }
        const key = a.i * boxes.length + b.i;
        let edge = edges.get(key);
        if (!edge) edges.set(key, edge = {a, b, bytes: 0, cut: 0});
        edge.bytes += from.bytes[e], edge.cut += from.cut[e];
      }
      return {boxes, edges: [...edges.values()]};
    }
  }
  const kMostBoxes = 300;
  function layOut(boxes, edges, width) {
    const columns = Math.max(3, Math.floor(width / 200));
    const near = boxes.map(() => []);
    for (const edge of edges) {
      near[edge.a.i].push([edge.b.i, edge.bytes]), near[edge.b.i].push([edge.a.i, edge.bytes]);
    }
    // Edges between scopes form cycles, so they give no order: columns are filled by depth.
    boxes.forEach((box, i) => { box.column = Math.floor(i * Math.min(columns, boxes.length) / boxes.length); });
    const used = Math.max(1, ...boxes.map(box => box.column + 1));
    const lists = Array.from({length: used}, () => []);
    for (const box of boxes) lists[box.column].push(box);
    const heaviest = Math.max(1, ...boxes.map(box => box.ns));
    for (const box of boxes) box.h = 34 + Math.round(46 * Math.sqrt(box.ns / heaviest));
    const pitch = (width - 8) / used, boxWidth = Math.min(158, pitch - 84);
    const place = () => {
      const tallest = Math.max(...lists.map(list => list.reduce((sum, box) => sum + box.h + 14, 0)));
      for (const list of lists) {
        let y = 20 + (tallest - list.reduce((sum, box) => sum + box.h + 14, 0)) / 2;
        for (const box of list) box.y = y, y += box.h + 14;
      }
      return tallest;
    };
    let tallest = place();
    for (let sweep = 0; sweep < 6; ++sweep) {
      for (const list of lists) {
        for (const box of list) {
          let sum = 0, weight = 0;
          for (const [other, size] of near[box.i]) {
            const w = Math.log2(2 + size);
            sum += (boxes[other].y + boxes[other].h / 2) * w, weight += w;
          }
          box.middle = weight > 0 ? sum / weight : box.y;
        }
        list.sort((a, b) => a.middle - b.middle);
      }
      tallest = place();
    }
    for (const box of boxes) box.x = 4 + box.column * pitch, box.w = boxWidth;
    return tallest + 30;
  }
  const edgePoint = (edge, s) => {
    const {x1, y1, x2, y2, c1, c2} = edge, r = 1 - s;
    return [
      r * r * r * x1 + 3 * r * r * s * c1 + 3 * r * s * s * c2 + s * s * s * x2,
      r * r * r * y1 + 3 * r * r * s * y1 + 3 * r * s * s * y2 + s * s * s * y2
    ];
  };
  function graphView(container, graph) {
    let state = new Collapsed(graph);
    const canvas = element('canvas', {role: 'img', tabIndex: 0}), sentence = element('p', {}),
          chips = element('div', {class: 'tools'}), tables = element('div', {});
    const legend = element('ul', {class: 'legend'}), note = element('p', {class: 'read'});
    const tools = element('div', {class: 'tools'});
    const option = (text, name) => {
      const box = element('input', {
        type: 'checkbox',
        checked: state[name],
        onchange: () => {
          state[name] = box.checked;
          state.weigh();
          draw();
        }
      });
      return element('label', {}, box, text);
    };
    tools.append(element('button', {
      type: 'button',
      onclick: () => {
        state.expandHeaviest(state.boxes().boxes.length + 30);
        draw();
      }
    },
                   'Open the heaviest'),
      element('button', {
        type: 'button',
        onclick: () => {
          state.expanded.clear();
          draw();
        }
      },
        'Close all'));
    if (state.splittable) tools.append(option('Split phases', 'split'));
    if (state.foldable) tools.append(option('Merge time steps', 'fold'));
    container.append(sentence, tools, chips, element('div', {}, canvas), legend, note, tables);
    let boxes = [], edges = [], marked = -1, left = 0;
    function draw() {
      const all = state.boxes();
      boxes = all.boxes, edges = all.edges, left = 0;
      if (boxes.length > kMostBoxes) {
        const kept = new Set([...boxes].sort((a, b) => b.ns - a.ns).slice(0, kMostBoxes));
        left = boxes.length - kMostBoxes;
        boxes = boxes.filter(box => kept.has(box));
        boxes.forEach((box, i) => { box.i = i; });
        edges = edges.filter(edge => kept.has(edge.a) && kept.has(edge.b));
      }
      const width = canvas.parentElement.clientWidth;
      const height = layOut(boxes, edges, width);
      const [context] = prepared(canvas, height);
      const largest = Math.max(1, ...edges.map(edge => edge.bytes)),
            widest = Math.max(1, ...edges.map(edge => edge.cut));
      edges.sort((a, b) => a.cut - b.cut || a.bytes - b.bytes);
      for (const edge of edges) {
        const {a, b} = edge, onward = a.column < b.column;
        edge.x1 = a.x + a.w, edge.y1 = a.y + a.h / 2;
        edge.x2 = onward ? b.x : b.x + b.w, edge.y2 = b.y + b.h / 2;
        const reach = onward ? Math.max(24, (edge.x2 - edge.x1) * 0.5) : 56;
        edge.c1 = edge.x1 + reach, edge.c2 = onward ? edge.x2 - reach : edge.x2 + reach;
        context.beginPath();
        context.moveTo(edge.x1, edge.y1);
        context.bezierCurveTo(edge.c1, edge.y1, edge.c2, edge.y2, edge.x2, edge.y2);
        context.strokeStyle = edge.cut > 0 ? colours.cut : colours.uncut;
        context.globalAlpha = edge.cut > 0 ? 0.25 + 0.5 * Math.sqrt(edge.cut / widest) : 0.55;
        context.lineWidth =
          edge.cut > 0 ? 0.8 + 4 * Math.sqrt(edge.cut / widest) : 0.7 + 2 * Math.sqrt(edge.bytes / largest);
        context.setLineDash(edge.cut > 0 ? [] : [3, 3]);
        context.stroke();
        context.setLineDash([]);
        context.globalAlpha = 1;
      }
      for (const box of boxes) drawBox(context, box);
      const taken = [];
      for (const edge of edges.slice(-14).reverse()) {
        if (edge.cut === 0) continue;
        context.font = kFont.replace('12px', '11px');
        const text = bytes(edge.cut), half = context.measureText(text).width / 2 + 3;
        const spot =
          [0.5, 0.4, 0.6, 0.3, 0.7]
            .map(s => edgePoint(edge, s))
            .find(([x, y]) => taken.every(([u, v, w]) => Math.abs(x - u) > half + w || Math.abs(y - v) > 16) &&
                boxes.every(
                  box => x + half < box.x || x - half > box.x + box.w || y + 9 < box.y || y - 9 > box.y + box.h));
        if (!spot) continue;
        taken.push([...spot, half]);
        context.fillStyle = colours.surface;
        context.globalAlpha = 0.88;
        context.fillRect(spot[0] - half, spot[1] - 8, 2 * half, 16);
        context.globalAlpha = 1;
        context.fillStyle = colours.ink;
        context.textAlign = 'center';
        context.fillText(text, spot[0], spot[1]);
      }
      refresh();
    }
    function drawBox(context, box) {
      context.fillStyle = colours.surface;
      context.strokeStyle = box.i === marked ? colours.accent : colours.soft;
      context.lineWidth = box.i === marked ? 2.5 : 1;
      context.beginPath();
      context.roundRect(box.x, box.y, box.w, box.h, 5);
      context.fill();
      context.save();
      context.clip();
      const of = box.ns > 0 ? box.onNs : box.onOps, sum = of.reduce((a, b) => a + b, 0) || 1;
      const depth = Math.max(8, box.h - 30);
      let x = box.x;
      of.forEach((part, d) => {
        if (part <= 0) return;
        const w = box.w * part / sum;
        context.fillStyle = deviceColour(d);
        context.fillRect(x, box.y + box.h - depth, w, depth);
        if (depth >= 17 && w > 46) {
          context.fillStyle = inkOn(deviceColour(d));
          context.textAlign = 'center';
          context.fillText(fitted(context, deviceName(graph, d) + (part < sum ? ' ' + percent(part / sum) : ''), w - 6),
            x + w / 2, box.y + box.h - depth / 2);
        }
        x += w;
      });
      context.restore();
      context.stroke();
      const more = state.canExpand(box.path);
      const y = box.y + Math.min(14, (box.h - depth) / 2 + 1),
            phase = state.split ? ['', 'back', 'update'][box.phase] : '';
      context.font = kFont.replace('12px', '11px');
      const room = phase ? context.measureText(phase).width + 8 : 0;
      context.fillStyle = colours.soft;
      context.textAlign = 'right';
      context.fillText(phase, box.x + box.w - 6, y);
      context.font = kFont;
      context.fillStyle = colours.ink;
      context.textAlign = 'left';
      context.fillText(fitted(context, (more ? '▸ ' : '') + box.label, box.w - 12 - room), box.x + 6, y);
    }
    const about = box => [box.name + (state.split ? ' (' + kPhases[box.phase] + ')' : ''),
      count(box.ops) + ' ops, ' + time(box.ns) + (box.state > 0 ? ', ' + bytes(box.state) + ' of state' : ''),
      [...box.onOps]
        .map((ops, d) => ops > 0 ? deviceName(graph, d) + ': ' + count(ops) + ' ops, ' + time(box.onNs[d]) : '')
        .filter(Boolean)
        .join('\n'),
      box.inner > 0 ? bytes(box.inner) + ' copied inside' : '']
                           .filter(Boolean)
                           .join('\n');
    function refresh() {
      const total = state.map.edges.cut.reduce((a, b) => a + b, 0),
            inner = boxes.reduce((sum, box) => sum + box.inner, 0), cuts = edges.filter(edge => edge.cut > 0);
      sentence.textContent =
        'Scopes from left to right by their distance from the inputs; the height of a box ' +
        'shows the time of its ops, its colour their device. Solid lines carry data over links (' +
        bytes(total) + ' a step' + (inner > 0 ? ', ' + bytes(inner) + ' of it inside boxes' : '') +
        '), broken ones do not.';
      note.textContent = 'Click a scope marked ▸ to open it; keys: arrows, Enter, Backspace.' +
        (left > 0 ? ' The ' + count(left) + ' lightest boxes are not drawn.' : '');
      legend.replaceChildren(...graph.devices.map((device, d) => {
        const swatch = element('span', {class: 'swatch'});
        swatch.style.background = deviceColour(d);
        return element('li', {}, swatch, device.name);
      }));
      chips.replaceChildren(...(state.expanded.size ? ['Open: '] : []),
        ...[...state.expanded].sort().slice(0, 24).map(path => element('button', {
          type: 'button',
          title: 'Close',
          onclick: () => {
            state.expanded.delete(path);
            draw();
          }
        },
                                                         path + ' ×')));
      canvas.setAttribute('aria-label',
        boxes.length + ' scopes and ' + edges.length + ' edges, ' + cuts.length + ' of them over links, ' +
          bytes(total) + ' a step. The tables below contain the same data.');
      refill(tables,
        asTable('The graph as tables',
          table('Scopes, as drawn',
            ['Scope', 'Phase', 'Ops', 'Time', 'State', ...graph.devices.map(device => device.name)],
            [...boxes]
              .sort((a, b) => b.ns - a.ns)
              .slice(0, 100)
              .map(box => [box.name, state.split ? kPhases[box.phase] : 'all', count(box.ops), time(box.ns),
                     bytes(box.state), ...[...box.onNs].map((ns, d) => box.onOps[d] > 0 ? time(ns) : '')])),
          table('Data over links between scopes, most first', ['From', 'To', 'Over links', 'All data'],
            [...cuts]
              .sort((a, b) => b.cut - a.cut)
              .slice(0, 100)
              .map(edge => [edge.a.name, edge.b.name, bytes(edge.cut), bytes(edge.bytes)]))));
    }
    const at = event => {
      const frame = canvas.getBoundingClientRect(), x = event.clientX - frame.left, y = event.clientY - frame.top;
      const box = boxes.find(one => x >= one.x && x <= one.x + one.w && y >= one.y && y <= one.y + one.h);
      if (box) return {box};
      let nearest = null, least = 7;
      for (const edge of edges) for (let s = 0.04; s < 1; s += 0.04) {
        const [u, v] = edgePoint(edge, s), distance = Math.hypot(u - x, v - y);
        if (distance < least) least = distance, nearest = edge;
      }
      return {edge: nearest};
    };
    const toggle = box => {
      if (!box || !state.canExpand(box.path)) return;
      state.expanded.add(box.path);
      draw();
    };
    canvas.addEventListener('pointermove', event => {
      const {box, edge} = at(event);
      canvas.style.cursor = box && state.canExpand(box.path) ? 'pointer' : 'default';
      showTip(event,
        box      ? about(box)
          : edge ? edge.a.name + ' → ' + edge.b.name + '\n' + bytes(edge.bytes) + ', ' +
            (edge.cut > 0 ? bytes(edge.cut) + ' over links' : 'none over links')
                 : '');
    });
    canvas.addEventListener('pointerleave', event => showTip(event, ''));
    canvas.addEventListener('click', event => toggle(at(event).box));
    canvas.addEventListener('keydown', event => {
      const box = boxes[marked];
      const act = {
        ArrowRight: () => {
          marked = (marked + 1) % boxes.length;
        },
        ArrowLeft: () => {
          marked = (marked + boxes.length - 1) % boxes.length;
        },
        Enter: () => toggle(box),
        Backspace: () => {
          if (box) state.expanded.delete(box.path.replace(/\/?[^/]*$/, ''));
        }
      }[event.key];
      if (!act) return;
      event.preventDefault();
      act();
      draw();
      if (boxes[marked]) note.textContent = about(boxes[marked]).replaceAll('\n', ' · ');
    });
    redraws.add({container, draw});
    draw();
    return {update(next) {
      graph = next;
      state = new Collapsed(graph, state);
      marked = -1;
      draw();
    }};
  }

  page.charts.graph = graphView;
})(emplacePage);
