'use strict';
// What the charts of a step share: its decoded columns, and the part of it that is visible.
(page => {
  const {element, showTip, colours, redraws, ticks} = page;

  const kDigits = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';
  function names(text) {
    let last = '';
    return text.split('\n').map(entry => last = last.slice(0, kDigits.indexOf(entry[0])) + entry.slice(1));
  }
  function decoded(step) {
    if (step.decoded) return step;
    for (const lane of step.lanes) {
      const n = lane.gap.length;
      lane.start = new Float64Array(n), lane.end = new Float64Array(n);
      for (let i = 0, at = 0; i < n; ++i) {
        lane.start[i] = at += lane.gap[i];
        lane.end[i] = at += lane.dur[i];
      }
      lane.name = i => (lane.list = lane.list || names(lane.names))[i] || '';
    }
    step.memory = step.memory.map(levels => {
      const at = new Float64Array(levels.at.length), held = new Float64Array(levels.at.length);
      for (let i = 0, t = 0, b = 0; i < at.length; ++i) at[i] = t += levels.at[i], held[i] = b += levels.bytes[i];
      return {exact: levels.exact, at, held};
    });
    const chain = step.chain;
    chain.start = new Float64Array(chain.lane.length);
    for (let i = 0, at = 0; i < chain.lane.length; ++i) chain.start[i] = at, at += chain.dur[i];
    step.decoded = true;
    return step;
  }
  /// First index with a value above `wanted`.
  function above(sorted, wanted) {
    let low = 0, high = sorted.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (sorted[middle] <= wanted) low = middle + 1; else high = middle;
    }
    return low;
  }
  /// Levels of a scope; `folded` leaves out time steps.
  const levelsOf = path => path.split('/').filter(level => level !== '');
  const folded = path => levelsOf(path).filter(level => !/^t\d+$/.test(level));
  const deviceName = (graph, device) => graph.devices[device].name;
  const laneName = (graph, lane) => !lane.copies ? deviceName(graph, lane.device)
    : lane.device === lane.target ? 'copies from ' + deviceName(graph, lane.device)
    : deviceName(graph, lane.device) + ' → ' + deviceName(graph, lane.target);

  /// The step that schedule and memory show, and the visible part of it.
  class View {
    constructor(graph) {
      this.listeners = [];
      this.graph = graph;
      this.steps = graph.task.steps;
      this.show(0);
    }
    get step() { return decoded(this.steps[this.at]); }
    show(at) {
      this.at = at;
      this.from = 0, this.to = Math.max(1, this.steps[at].end);
      this.changed();
    }
    /// Newer data of the same graph. The step that is shown and the visible part of it stay.
    update(graph) {
      const whole = this.from === 0 && this.to >= this.step.end;
      this.graph = graph;
      this.steps = graph.task.steps;
      this.at = Math.min(this.at, this.steps.length - 1);
      if (whole) this.show(this.at); else this.look(this.from, this.to);
    }
    look(from, to) {
      const end = Math.max(1, this.step.end), least = Math.max(20, end / 1e7);
      const width = Math.min(end, Math.max(least, to - from));
      this.from = Math.min(Math.max(0, from), end - width);
      this.to = this.from + width;
      this.changed();
    }
    zoom(factor, at = (this.from + this.to) / 2) {
      this.look(at - (at - this.from) * factor, at + (this.to - at) * factor);
    }
    changed() { for (const listener of this.listeners) listener(); }
  }
  const kGutter = 128, kRight = 12;
  /// Zoom and pan by drag, keys and Ctrl + wheel; the same in every chart over time.
  function navigable(canvas, view, hover) {
    let pressed = null;
    const timeAt = event => {
      const box = canvas.getBoundingClientRect();
      const share = (event.clientX - box.left - kGutter) / (box.width - kGutter - kRight);
      return view.from + (view.to - view.from) * Math.min(1, Math.max(0, share));
    };
    canvas.tabIndex = 0;
    canvas.addEventListener('pointerdown', event => {
      pressed = {at: timeAt(event), x: event.clientX};
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener('pointermove', event => {
      view.band =
        pressed && Math.abs(event.clientX - pressed.x) > 4 ? [pressed.at, timeAt(event)].sort((a, b) => a - b) : null;
      if (pressed) view.changed();
      showTip(event, pressed ? '' : hover(event, timeAt(event)));
    });
    canvas.addEventListener('pointerup', () => {
      const band = view.band;
      pressed = view.band = null;
      if (band) view.look(band[0], band[1]);
    });
    canvas.addEventListener('pointercancel', () => { pressed = view.band = null; view.changed(); });
    canvas.addEventListener('pointerleave', event => showTip(event, ''));
    canvas.addEventListener('dblclick', () => view.look(0, Infinity));
    canvas.addEventListener('wheel', event => {
      if (!event.ctrlKey && !event.shiftKey) return;
      event.preventDefault();
      view.zoom(event.deltaY + event.deltaX > 0 ? 1.25 : 0.8, timeAt(event));
    }, {passive: false});
    canvas.addEventListener('keydown', event => {
      const width = view.to - view.from;
      const act = {
        '+': () => view.zoom(0.5),
        '=': () => view.zoom(0.5),
        '-': () => view.zoom(2),
        '0': () => view.look(0, Infinity),
        ArrowLeft: () => view.look(view.from - width / 5, view.to - width / 5),
        ArrowRight: () => view.look(view.from + width / 5, view.to + width / 5),
        Home: () => view.look(0, width),
        End: () => view.look(Infinity, Infinity)
      }[event.key];
      if (!act) return;
      event.preventDefault();
      act();
    });
  }
  function stepTools(view, ...more) {
    const choices = element('span', {class: 'choices'});
    let labels = null, buttons = [];
    const press = () => {
      const now = view.steps.map(step => step.label);
      if (!labels || labels.join('\n') !== now.join('\n')) {
        labels = now;
        buttons = now.map((label, at) => element('button', {type: 'button', onclick: () => view.show(at)}, label));
        choices.replaceChildren(...(buttons.length > 1 ? buttons : []));
      }
      buttons.forEach((button, at) => button.setAttribute('aria-pressed', String(at === view.at)));
    };
    view.listeners.push(press);
    press();
    return element('div', {class: 'tools'}, choices, more, element('span', {class: 'gap'}),
      element('button', {type: 'button', 'aria-label': 'Zoom in', onclick: () => view.zoom(0.5)}, '+'),
      element('button', {type: 'button', 'aria-label': 'Zoom out', onclick: () => view.zoom(2)}, '−'),
      element('button', {type: 'button', onclick: () => view.look(0, Infinity)}, 'Whole step'));
  }
  function timeAxis(context, view, width, top, height) {
    const x = t => kGutter + (t - view.from) / (view.to - view.from) * (width - kGutter - kRight);
    context.textAlign = 'center';
    for (const t of ticks(view.from, view.to, (width - kGutter) / 110)) {
      context.fillStyle = colours.faint;
      context.fillRect(Math.round(x(t)), top, 1, height);
      context.fillStyle = colours.soft;
      const span = view.to - view.from;
      const unit = span >= 2e6 ? 1e6 : span >= 2e3 ? 1e3 : 1;
      const digits = Math.max(0, Math.min(4, 1 - Math.floor(Math.log10(span / unit / 8))));
      context.fillText((t / unit).toFixed(digits) +
          (unit === 1e6      ? ' ms'
              : unit === 1e3 ? ' µs'
                             : ' ns'),
        Math.min(x(t), width - 24), top + height + 11);
    }
    return x;
  }
  function drawBand(context, view, x, top, height) {
    if (!view.band) return;
    context.globalAlpha = 0.18;
    context.fillStyle = colours.accent;
    context.fillRect(x(view.band[0]), top, x(view.band[1]) - x(view.band[0]), height);
    context.globalAlpha = 1;
  }
  /// Draws a chart when its view changes. Calls `describe(step)` when the view shows another step, and when the page is
  /// drawn again, because legends have colours.
  function follow(container, view, draw, describe) {
    let described = null;
    function refresh() {
      draw();
      if (described === view.step) return;
      described = view.step;
      describe(view.step);
    }
    view.listeners.push(refresh);
    redraws.add({container, draw: () => { described = null; refresh(); }});
    refresh();
  }

  page.step = {above, deviceName, laneName, levelsOf, folded, View, kGutter, kRight, navigable, stepTools, timeAxis,
    drawBand, follow};
  page.charts = {};  // By name: (container, graph, view) => {update(graph)}, or nothing.
})(emplacePage);
