'use strict';
// The charts of a report: learning curves, schedules, memory, graphs. A chart can be given newer data: what a person
// has chosen in it stays as it is.
(page => {
  const {time, bytes, count, percent, kPhases, element, table, asTable, showTip, colours, deviceColour, inkOn, shade,
    redraws, redrawAll, kFont, prepared, fitted, ticks, markLines, tickOfMs, plotLook, refill} = page;

  // --- A step: decoded columns and queries of the charts ---

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
  const deviceName = (graph, device) => graph.devices[device].name;
  const laneName = (graph, lane) => !lane.copies ? deviceName(graph, lane.device)
    : lane.device === lane.target ? 'copies from ' + deviceName(graph, lane.device)
    : deviceName(graph, lane.device) + ' → ' + deviceName(graph, lane.target);

  // --- View shared by schedule and memory: the step and the visible part of it ---

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

  // --- The schedule ---

  function drawLane(context, lane, view, x, top, height, right) {
    const first = above(lane.end, view.from);
    const columns = right - kGutter + 1;
    const busy = [0, 1, 2].map(() => new Float32Array(columns));  // Share of blocks narrower than a pixel, by phase.
    const scale = (right - kGutter) / (view.to - view.from);
    for (let i = first; i < lane.start.length && lane.start[i] < view.to; ++i) {
      const from = Math.max(kGutter, x(lane.start[i])), to = Math.min(right, x(lane.end[i]));
      const phase = lane.kind[i] % 3;
      const full = lane.busy ? lane.busy[i] / Math.max(1, lane.dur[i]) : 1;
      if (to - from < 1.5) {
        let at = from - kGutter,
            left = (Math.min(lane.end[i], view.to) - Math.max(lane.start[i], view.from)) * scale * full;
        for (let column = Math.floor(at); left > 0 && column < columns; ++column) {
          const part = Math.min(left, column + 1 - at);
          busy[phase][column] += part;
          left -= part, at = column + 1;
        }
        continue;
      }
      context.globalAlpha = 0.25 + 0.75 * Math.min(1, full);
      context.fillStyle = shade(lane.device, phase);
      context.fillRect(from, top, to - from - (to - from > 4 ? 0.6 : 0), height);
      context.globalAlpha = 1;
      if (to - from > 46 && height > 18) {
        context.fillStyle = phase === 0 ? inkOn(deviceColour(lane.device)) : colours.ink;
        context.textAlign = 'left';
        context.fillText(fitted(context, lane.name(i), to - from - 8), from + 4, top + height / 2);
      }
    }
    for (let column = 0; column < columns; ++column) {
      const sum = busy[0][column] + busy[1][column] + busy[2][column];
      if (sum <= 0.004) continue;
      // Height shows the busy share, split by phase.
      const filled = height * Math.min(1, Math.max(0.08, sum));
      let y = top + height;
      for (let phase = 0; phase < 3; ++phase) {
        const part = filled * busy[phase][column] / sum;
        context.fillStyle = shade(lane.device, phase);
        context.fillRect(kGutter + column, y - part, 1, part);
        y -= part;
      }
    }
    if (lane.copies) {  // Copies are hatched, to be distinguishable from ops without colour.
      context.globalAlpha = 0.35;
      context.fillStyle = colours.surface;
      for (let y = top + 2; y < top + height; y += 4) context.fillRect(kGutter, y, right - kGutter, 1.2);
      context.globalAlpha = 1;
    }
  }
  function drawChain(context, step, view, x, tops, heights) {
    const chain = step.chain;
    context.fillStyle = colours.chain;
    let lastX = -9;
    const begin = Math.max(0, above(chain.start, view.from) - 1);
    const joined = above(chain.start, view.to) - begin < 400;  // More lines would hide the lanes.
    for (let i = begin; i < chain.lane.length && chain.start[i] < view.to; ++i) {
      const lane = chain.lane[i];
      if (lane < 0) continue;
      const from = Math.max(kGutter, x(chain.start[i])), to = x(Math.min(view.to, chain.start[i] + chain.dur[i]));
      const y = tops[lane] + heights[lane] + 1.5;
      context.fillRect(from, y, Math.max(0.8, to - from), 2.5);
      const next = chain.lane[i + 1];
      if (!joined || next === undefined || next < 0 || to - lastX < 2.5) continue;
      lastX = to;
      const other = tops[next] + heights[next] + 1.5;
      context.globalAlpha = 0.55;
      context.fillRect(to - 0.4, Math.min(y, other), 0.8, Math.abs(y - other) + 2.5);
      context.globalAlpha = 1;
    }
  }
  function chainTables(graph, step) {
    const chain = step.chain, scopes = graph.task.map.scopes;
    const sums = new Map();
    for (const [lane, scope, ns, links] of chain.parts) {
      const path = folded(scopes[scope]).slice(0, 3).join('/') || '(no scope)';
      const key = lane + ' ' + path;
      const sum = sums.get(key) || {lane, path, ns: 0, links: 0};
      sum.ns += ns, sum.links += links;
      sums.set(key, sum);
    }
    const rows = [...sums.values()].sort((a, b) => b.ns - a.ns).slice(0, 15);
    return table('Composition of the critical path, heaviest first; scopes to three levels, time steps merged',
      ['Scope', 'Where', 'Time', 'Of the step', 'Links'],
      rows.map(row => [row.path, laneName(graph, step.lanes[row.lane]), time(row.ns), percent(row.ns / step.end),
                 count(row.links)]));
  }
  function gantt(container, graph, view) {
    const canvas = element('canvas', {role: 'img'});
    let path = true;
    const toggle = element('input', {
      type: 'checkbox',
      checked: true,
      onchange: () => {
        path = toggle.checked;
        draw();
      }
    });
    const sentence = element('p', {}), legend = element('ul', {class: 'legend'}), tables = element('div', {});
    const note = element('p', {class: 'read'});
    container.append(sentence, stepTools(view, element('label', {}, toggle, 'Critical path')),
      element('div', {}, canvas), legend, note, tables);
    let tops = [], heights = [];
    function draw() {
      const step = view.step;
      tops = [], heights = [];
      let y = 4;
      step.lanes.forEach((lane, i) => {
        if (i === graph.devices.length) y += 6;
        heights.push(lane.copies ? 13 : step.lanes.length > 24 ? 18 : 34);
        tops.push(y);
        y += heights[i] + 9;
      });
      const [context, width] = prepared(canvas, y + 24);
      const x = timeAxis(context, view, width, 0, y);
      step.lanes.forEach((lane, i) => {
        context.fillStyle = colours.fainter;
        context.fillRect(kGutter, tops[i], width - kGutter - kRight, heights[i]);
        context.fillStyle = lane.copies ? colours.soft : colours.ink;
        context.textAlign = 'right';
        context.fillText(fitted(context, laneName(graph, lane), kGutter - 14), kGutter - 8, tops[i] + heights[i] / 2);
        drawLane(context, lane, view, x, tops[i], heights[i], Math.floor(width - kRight));
      });
      if (path) drawChain(context, step, view, x, tops, heights);
      drawBand(context, view, x, 0, y);
    }
    let drawn = null;
    function refresh() {
      graph = view.graph;
      draw();
      if (drawn === view.step) return;
      drawn = view.step;
      const step = view.step, chain = step.chain, all = Math.max(1, step.end);
      const used = step.busy.map((busy, d) => deviceName(graph, d) + ' ' + percent(busy / all)).join(', ');
      sentence.textContent = 'The critical path of ' + count(chain.links) +
        ' links decides the step time: ' + percent(chain.ops / all) + ' of it is ops, ' + percent(chain.copies / all) +
        ' copies' + (chain.gaps > 0 ? ', ' + percent(chain.gaps / all) + ' waiting' : ', none of it waiting') + '. ' +
        percent(chain.behind / all) +
        ' started when its device or copy engine became free, the rest when its inputs were ready. Busy: ' + used + '.';
      canvas.setAttribute('aria-label',
        'Schedule of ' + step.label + ', ' + count(step.ops) + ' ops and ' + count(step.transfers) + ' copies in ' +
          time(step.end) + '. Arrow keys move, plus and minus zoom, 0 shows the whole step.');
      note.textContent = 'Drag to zoom, double-click for the whole step; keys: arrows, +, −, 0.' +
        (step.merged ? ' The step has more ops than a page can hold: neighbours are merged.' : '');
      legend.replaceChildren(...kPhases.filter((_, phase) => graph.task.map.phase.includes(phase)).map(phase => {
        const swatch = element('span', {class: 'swatch'});
        swatch.style.background = 'linear-gradient(90deg, ' +
          step.busy.slice(0, 4)
            .map((_, d, all_) => shade(d, kPhases.indexOf(phase)) + ' ' + d * 100 / all_.length + '% ' +
                (d + 1) * 100 / all_.length + '%')
            .join(', ') +
          ')';
        return element('li', {}, swatch, phase);
      }), element('li', {}, 'striped: copies over links'), element('li', {}, 'line: critical path'));
      refill(tables,
        asTable('The schedule as tables',
          table('Each device and link',
            ['Lane', 'Ops or copies', 'Busy', 'Of the step', 'On the critical path', 'Bytes'],
            step.lanes.map((lane, i) => {
              let busy = 0, on = 0, moved = 0, pieces = 0;
              for (let k = 0; k < lane.dur.length; ++k) {
                busy += lane.busy ? lane.busy[k] : lane.dur[k], pieces += lane.count ? lane.count[k] : 1;
                if (lane.copies) moved += lane.detail[k];
              }
              for (let k = 0; k < chain.lane.length; ++k)
                if (chain.lane[k] === i) on += chain.dur[k];
              return [
                laneName(graph, lane), count(pieces), time(busy), percent(busy / all), time(on),
                lane.copies ? bytes(moved) : ''
              ];
            })),
          chainTables(graph, step)));
    }
    navigable(canvas, view, (event, t) => {
      const y = event.clientY - canvas.getBoundingClientRect().top, step = view.step;
      const at = tops.findIndex((top, i) => y >= top - 4 && y < top + heights[i] + 5);
      if (at < 0) return '';
      const lane = step.lanes[at], slack = (view.to - view.from) / canvas.clientWidth * 2;
      const i = above(lane.end, t - slack);
      if (i >= lane.start.length || lane.start[i] > t + slack) return laneName(graph, lane) + ': idle';
      const scope = graph.task.map.scopes[Math.floor(lane.kind[i] / 3)], parts = lane.count ? lane.count[i] : 1;
      return [
        lane.name(i) + (parts > 1 ? ' and ' + count(parts - 1) + ' more' : ''),
        lane.copies   ? bytes(lane.detail[i]) + ', ' + laneName(graph, lane)
          : parts > 1 ? ''
                      : graph.task.types[lane.detail[i]],
        scope + ' (' + kPhases[lane.kind[i] % 3] + ')',
        'from ' + time(lane.start[i]) + ', for ' + time(lane.end[i] - lane.start[i])
      ].filter(Boolean)
        .join('\n');
    });
    view.listeners.push(refresh);
    redraws.add({container, draw: () => { drawn = null; refresh(); }});
    refresh();
  }

  // --- Memory ---

  function memory(container, graph, view) {
    const canvas = element('canvas', {role: 'img'}), tables = element('div', {}), sentence = element('p', {});
    container.append(sentence, stepTools(view), element('div', {}, canvas), tables);
    const kRow = graph.devices.length > 6 ? 46 : 74, kGap = 14;
    function draw() {
      const step = view.step, height = graph.devices.length * (kRow + kGap);
      const [context, width] = prepared(canvas, height + 24);
      const x = timeAxis(context, view, width, 0, height), right = Math.floor(width - kRight);
      graph.devices.forEach((device, d) => {
        const top = d * (kRow + kGap) + 6, bottom = top + kRow;
        // If little memory is used, the axis ends above the peak, and the cap is outside the picture.
        const roomy = step.peak[d] > 0 && step.peak[d] < device.memory * 0.3;
        const highest = roomy ? step.peak[d] * 1.5 : Math.max(device.memory, step.peak[d]) * 1.04 || 1;
        const y = held => bottom - held / highest * kRow;
        context.fillStyle = colours.fainter;
        context.fillRect(kGutter, top, right - kGutter, kRow);
        const {at, held} = step.memory[d];
        // Draws the maximum of each pixel, so that no peak is lost.
        context.beginPath();
        context.moveTo(kGutter, bottom);
        let i = Math.max(0, above(at, view.from) - 1);
        for (let column = 0; column <= right - kGutter; ++column) {
          const until = view.from + (view.to - view.from) * (column + 1) / (right - kGutter);
          let most = at.length && at[i] < until ? held[i] : 0;
          while (i + 1 < at.length && at[i + 1] < until) most = Math.max(most, held[++i]);
          context.lineTo(kGutter + column, y(most)), context.lineTo(kGutter + column + 1, y(most));
        }
        context.lineTo(right, bottom);
        context.closePath();
        context.globalAlpha = 0.45;
        context.fillStyle = deviceColour(d);
        context.fill();
        context.globalAlpha = 1;
        context.strokeStyle = deviceColour(d);
        context.lineWidth = 1;
        context.stroke();
        const over = step.peak[d] > device.memory;
        context.strokeStyle = over ? colours.bad : colours.ink;
        if (roomy) {
          context.fillStyle = colours.soft;
          context.textAlign = 'right';
          context.fillText('↑ ' + bytes(device.memory) + ' are above the picture', right - 6, top + 10);
        } else {
          context.setLineDash([5, 4]);
          context.beginPath();
          context.moveTo(kGutter, y(device.memory));
          context.lineTo(right, y(device.memory));
          context.stroke();
          context.setLineDash([]);
        }
        context.textAlign = 'right';
        context.fillStyle = colours.ink;
        context.fillText(fitted(context, device.name, kGutter - 14), kGutter - 8, top + kRow / 2 - 16);
        context.fillStyle = over ? colours.bad : colours.soft;
        context.fillText('peak ' + bytes(step.peak[d]), kGutter - 8, top + kRow / 2);
        context.fillText('of ' + bytes(device.memory), kGutter - 8, top + kRow / 2 + 15);
      });
      drawBand(context, view, x, 0, height);
    }
    let drawn = null;
    function refresh() {
      graph = view.graph;
      draw();
      if (drawn === view.step) return;
      drawn = view.step;
      const step = view.step;
      const share = graph.devices.map((device, d) => step.peak[d] / device.memory),
            fullest = share.indexOf(Math.max(...share));
      sentence.textContent =
        'State, live tensors and received copies, by the lifetimes of docs/reference/measurement.md; ' +
        'the dashed line is the capacity of the device. ' +
        'The fullest is ' + deviceName(graph, fullest) + ' with ' + percent(share[fullest]) + ' at its peak.';
      canvas.setAttribute('aria-label',
        'Memory over time of ' + step.label + ': ' +
          graph.devices
            .map((device, d) => device.name + ' peaks at ' + bytes(step.peak[d]) + ' of ' + bytes(device.memory))
            .join(', ') +
          '. Keys as in the schedule.');
      const kRows = 21, rows = [];
      for (let k = 0; k < kRows; ++k) {
        const t = step.end * k / (kRows - 1);
        rows.push([
          time(t), ...step.memory.map(({at, held}) => {
            const i = above(at, t) - 1;
            return i < 0 ? '0 B' : bytes(held[i]);
          })
        ]);
      }
      refill(tables, asTable('The memory as tables',
        table('Peaks', ['Device', 'Peak', 'Of', 'Share', 'First reached at'], graph.devices.map((device, d) => {
          const {at, held} = step.memory[d], i = held.indexOf(step.peak[d]);
          return [device.name, bytes(step.peak[d]), bytes(device.memory), percent(share[d]), i < 0 ? '' : time(at[i])];
        })), table('At twenty-one moments of the step', ['Time', ...graph.devices.map(device => device.name)], rows)));
    }
    navigable(canvas, view, (event, t) => {
      const d = Math.floor((event.clientY - canvas.getBoundingClientRect().top) / (kRow + kGap));
      if (d < 0 || d >= graph.devices.length) return '';
      const {at, held} = view.step.memory[d], i = above(at, t) - 1;
      return deviceName(graph, d) + ' at ' + time(t) + ': ' + bytes(i < 0 ? 0 : held[i]);
    });
    view.listeners.push(refresh);
    redraws.add({container, draw: refresh});
    refresh();
  }

  // --- The learning curve ---

  const kStartColours = [0, 4, 2, 3];
  function learningCurve(container, graph) {
    let curves = [], byTime = false, whole = false;
    const plot = element('div', {class: 'plot'}), low = element('div', {class: 'plot low'}),
          marks = element('div', {class: 'marks'}), read = element('p', {class: 'read'});
    const legend = element('ul', {class: 'legend'});
    const tools = element('div', {class: 'tools'}), tables = element('div', {});
    const box = element('input', {type: 'checkbox', onchange: () => { byTime = box.checked; draw(false); }});
    const timed = element('label', {}, box, 'Over wall time');
    tools.append(timed);
    const all = element('input', {type: 'checkbox', onchange: () => { whole = all.checked; draw(); }});
    tools.append(element('label', {}, all, 'All step times'), element('span', {class: 'gap'}),
      element('button', {type: 'button', onclick: () => shown.forEach(chart => chart.resetZoom())}, 'Whole run'));
    container.append(tools, element('div', {class: 'with-marks'}, plot, marks),
      element('div', {class: 'plot-title'}, 'Share of the placements measured that fit'), low, legend, read, tables);
    let shown = [];
    const colour = i => colours.devices[kStartColours[i % kStartColours.length]];

    /// All curves over one set of x values; each yields the stretch that contains x.
    function rows(pick) {
      const xs = curves.map(curve => byTime ? curve.wall.map(ms => ms / 1e3) : curve.x);
      const all_ = [...new Set(xs.flat())].sort((a, b) => a - b);
      const at = curves.map(() => 0);
      return all_.map(x => [x, ...curves.flatMap((curve, i) => {
        while (at[i] < xs[i].length && xs[i][at[i]] < x) ++at[i];
        return at[i] < xs[i].length ? pick(curve, at[i]) : pick(null, 0);
      })]);
    }
    const none = [null, null, null];
    const ms = ns => ns === null ? null : ns / 1e6;
    function values(curve, k) {
      if (!curve) return [none, none, none];
      const [p5, p25, p50, p75, p95] = curve.percentiles.map(column => ms(column[k]));
      const best = ms(curve.best[k]);
      return [
        p50 === null ? none : [p5, p50, p95], p50 === null ? none : [p25, p50, p75],
        best === null ? none : [best, best, best]
      ];
    }
    function range(list) {
      const bests =
        curves.flatMap(curve => curve.best.filter(v => v !== null)).concat(graph.lines.map(line => line.ns)).map(ms);
      if (bests.length === 0) return [0, 1];
      const bottom = Math.min(...bests, graph.bound === null ? Infinity : ms(graph.bound));
      const tops = list.flatMap(row => row.slice(1).map(bars => bars[2])).filter(v => v !== null);
      const lines = graph.lines.map(line => ms(line.ns));
      if (whole) return [bottom * 0.9, Math.max(...tops, ...lines) * 1.05];
      const medians =
        curves.flatMap(curve => curve.percentiles[3].filter(v => v !== null)).map(ms).sort((a, b) => a - b);
      const usual = medians.length ? medians[Math.floor(medians.length * 0.9)] : Math.max(...bests);
      const nearest = lines.length ? Math.min(...lines) : 0;
      const limit = Math.max(usual * 1.1, nearest * 1.15);
      return [bottom - (limit - bottom) * 0.08, limit];
    }
    function drawLines(context, area, chart) {
      const lines = graph.lines.map(line => ({label: line.label, value: ms(line.ns), colour: colours.soft}));
      if (graph.bound !== null)
        lines.push({label: 'proven bound', value: ms(graph.bound), colour: colours.ink, dash: [2, 3]});
      markLines(
        context, area, chart, marks, lines.map(line => ({...line, label: line.label + '  ' + time(line.value * 1e6)})));
    }
    function draw(zoomed = true) {
      const dateWindow = zoomed && shown.length && shown[0].isZoomed('x') ? shown[0].xAxisRange() : null;
      for (const chart of shown) chart.destroy();
      const list = rows(values);
      const xLabel = byTime ? 'seconds' : 'placements measured';
      const common = {...plotLook(), dateWindow};
      const labels = ['x', ...curves.flatMap((_, i) => ['w' + i, 'm' + i, 'b' + i])];
      const series = {};
      curves.forEach((_, i) => {
        series['w' + i] = {color: colour(i), strokeWidth: 0, fillAlpha: 0.14, highlightCircleSize: 0};
        series['m' + i] = {color: colour(i), strokeWidth: 1.2, fillAlpha: 0.28};
        series['b' + i] = {color: colour(i), strokeWidth: 2.6, stepPlot: false, highlightCircleSize: 0};
      });
      const look = (x, k) => {
        read.textContent = curves.map((curve) => {
          const xs = byTime ? curve.wall.map(v => v / 1e3) : curve.x, at = Math.min(xs.length - 1, above(xs, x - 1e-9));
          const p = curve.percentiles.map(column => column[at]);
          return curve.label + ' at ' + (byTime ? x.toFixed(1) + ' s' : count(curve.x[at])) + ': ' +
            (p[2] === null ? 'nothing fitted'
                           : 'median ' + time(p[2]) + ', 5 to 95 % ' + time(p[0]) + ' to ' + time(p[4])) +
            (curve.best[at] === null ? '' : ', best so far ' + time(curve.best[at])) + ', ' +
            percent(curve.valid[at] / curve.count[at]) + ' fit';
        }).join(' · ');
      };
      const follow = chart => { for (const other of shown) if (other !== chart) {
        const [from, to] = chart.xAxisRange(), now = other.xAxisRange();
        if (from !== now[0] || to !== now[1]) other.updateOptions({dateWindow: [from, to]});
      } };
      const main = new Dygraph(plot, list, {
        ...common,
        labels,
        series,
        customBars: true,
        valueRange: range(list),
        underlayCallback: drawLines,
        axes: {y: {axisLabelFormatter: tickOfMs, axisLabelWidth: 64}, x: {axisLabelFormatter: v => count(v)}},
        highlightCallback: (event, x, points, row) => look(x, row),
        zoomCallback: () => follow(main)
      });
      const fits = new Dygraph(low, rows((curve, k) => [curve ? 100 * curve.valid[k] / curve.count[k] : null]), {
        ...common,
        labels: ['x', ...curves.map((_, i) => 'f' + i)],
        colors: curves.map((_, i) => colour(i)),
        fillGraph: true,
        fillAlpha: 0.15,
        strokeWidth: 1.4,
        valueRange: [0, 104],
        xlabel: xLabel,
        axes: {
          y: {axisLabelFormatter: v => v + ' %', axisLabelWidth: 64, pixelsPerLabel: 25},
          x: {axisLabelFormatter: v => count(v)}
        },
        highlightCallback: (event, x, points, row) => look(x, row),
        zoomCallback: () => follow(fits)
      });
      shown = [main, fits];
      const high = graph.lines.filter(line => ms(line.ns) > main.yAxisRange(0)[1]);
      legend.replaceChildren(...curves.map((curve, i) => {
        const swatch = element('span', {class: 'swatch'});
        swatch.style.background = colour(i);
        return element('li', {}, swatch, curve.label);
      }),
        element('li', {}, 'thick: best so far; thin: median; bands: 25 to 75 %, 5 to 95 % of those that fit'),
        high.length
          ? element('li', {}, 'above the picture: ' + high.map(line => line.label + ' ' + time(line.ns)).join(', '))
          : '');
    }
    function update(next) {
      graph = next;
      curves = graph.curves.filter(curve => curve.x.length > 0);
      timed.hidden = !curves.every(curve => curve.wall);
      if (timed.hidden) byTime = box.checked = false;
      draw();
      for (const canvas of container.querySelectorAll('canvas')) canvas.setAttribute('aria-hidden', 'true');
      const last = curves.map(curve => curve.label + ': best ' +
          (curve.best.at(-1) === null ? 'none that fits' : time(curve.best.at(-1))) + ' after ' +
          count(curve.x.at(-1)) + ' placements');
      plot.setAttribute('aria-label', 'Learning curve. ' + last.join('; '));
      const cell = ns => ns === null ? '' : time(ns);
      refill(tables, asTable('The learning curve as tables', curves.map(curve => {
        const step = Math.max(1, Math.ceil(curve.x.length / 40));
        const picked = curve.x.map((_, k) => k).filter(k => (curve.x.length - 1 - k) % step === 0);
        const heads = ['Measured', 'Seconds', 'Fit', '5 %', '25 %', 'Median', '75 %', '95 %', 'Best so far'];
        return table(curve.label, heads,
          picked.map(k => [count(curve.x[k]), curve.wall ? (curve.wall[k] / 1e3).toFixed(1) : '',
                       percent(curve.valid[k] / curve.count[k]), ...curve.percentiles.map(column => cell(column[k])),
                       cell(curve.best[k])]));
      }), table('Heuristics', ['Method', 'Step time'], graph.lines.map(line => [line.label, time(line.ns)])
        .concat(graph.bound === null ? [] : [['proven bound', time(graph.bound)]]))));
    }
    plot.setAttribute('role', 'img');
    low.setAttribute('role', 'img');
    low.setAttribute('aria-label', 'Share of placements that fit, over the run');
    redraws.add({container, draw: () => draw()});
    update(graph);
    return {update};
  }

  // --- The graph, collapsed by scope ---

  const levelsOf = path => path.split('/').filter(level => level !== '');
  const folded = path => levelsOf(path).filter(level => !/^t\d+$/.test(level));
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

  // --- Predicted against measured ---

  function scatter(container, session) {
    const canvas = element('canvas', {role: 'img'});
    container.append(element('div', {}, canvas));
    const n = session.predicted.length;
    const low = Math.min(...session.predicted, ...session.measured) * 0.95,
          high = Math.max(...session.predicted, ...session.measured) * 1.05 || 1;
    function draw() {
      const kHeight = 340, kLeft = 84;
      const [context, width] = prepared(canvas, kHeight);
      const side = Math.min(width - kLeft - 20, 520);
      const x = v => kLeft + (v - low) / (high - low) * side,
            y = v => kHeight - 40 - (v - low) / (high - low) * (kHeight - 56);
      context.fillStyle = colours.soft;
      for (const t of ticks(low, high, 5)) {
        context.textAlign = 'center', context.fillText(time(t), x(t), kHeight - 28);
        context.textAlign = 'right', context.fillText(time(t), kLeft - 8, y(t));
        context.fillStyle = colours.faint;
        context.fillRect(kLeft, y(t), side, 1), context.fillRect(x(t), 16, 1, kHeight - 56);
        context.fillStyle = colours.soft;
      }
      context.textAlign = 'center', context.fillText('predicted', kLeft + side / 2, kHeight - 9);
      context.textAlign = 'left', context.fillText('measured', 4, 8);
      context.strokeStyle = colours.soft;
      context.setLineDash([5, 4]);
      context.beginPath(), context.moveTo(x(low), y(low)), context.lineTo(x(high), y(high)), context.stroke();
      context.setLineDash([]);
      context.fillStyle = colours.devices[0];
      context.globalAlpha = n > 300 ? 0.4 : 0.75;
      for (let i = 0; i < n; ++i)
        context.beginPath(), context.arc(x(session.predicted[i]), y(session.measured[i]), 3, 0, 7), context.fill();
      context.globalAlpha = 1;
    }
    canvas.setAttribute(
      'aria-label', count(n) + ' placements, predicted against measured step time; the table contains the numbers.');
    const worst = [...Array(n).keys()]
                    .sort((a, b) => Math.abs(session.measured[b] / session.predicted[b] - 1) -
                        Math.abs(session.measured[a] / session.predicted[a] - 1))
                    .slice(0, 50);
    container.append(asTable('The measurements as a table',
      table('Largest error first', ['Placement', 'Predicted', 'Measured', 'Off by'],
        worst.map(i => ['' + (i + 1), time(session.predicted[i]), time(session.measured[i]),
                    percent(session.measured[i] / session.predicted[i] - 1)]))));
    redraws.add({container, draw});
    draw();
  }

  // --- The report as a whole ---

  /// Children of the same part are kept; those that differ get the newer content. Charts stay: they get data instead.
  const sources = new WeakMap();
  function reconcile(place, fresh) {
    const had = new Map([...place.children].map(child => [child.dataset.part, child]));
    const wanted = [...fresh.children].map(child => {
      const old = had.get(child.dataset.part), source = child.outerHTML;
      const made = old || document.adoptNode(child);
      const charts = child.dataset.part !== 'remeasured' && child.querySelector('[data-chart]');
      had.delete(child.dataset.part);
      if (old && child.tagName === 'ARTICLE') reconcile(old, child);
      else if (old && !charts && sources.get(old) !== source) refill(old, ...child.childNodes);
      sources.set(made, source);
      return made;
    });
    for (const gone of had.values()) gone.remove();
    wanted.forEach((child, i) => {
      if (place.children[i] !== child) place.insertBefore(child, place.children[i] || null);
    });
    for (const entry of redraws) if (!entry.container.isConnected) redraws.delete(entry);
  }

  /// The report in an element of the page.
  class Report {
    /// `place` holds its markup already if there is data, and gets it by `update` otherwise.
    constructor(place, data = null) {
      this.place = place;
      this.data = data;
      this.number = 0;
      this.charts = new WeakMap();  // By container: {update(graph), data}.
      this.views = new WeakMap();   // By article.
      document.addEventListener('change', event => {
        if (event.target.id !== 'choose-graph') return;
        this.show(Number(event.target.value));
        redrawAll();
      });
      document.addEventListener('click', event => {
        const button = event.target.closest('[data-copy]');
        if (button) navigator.clipboard?.writeText(button.previousElementSibling.textContent)
          .then(() => { button.textContent = 'Copied'; }, () => {});
      });
      if (data) this.show(0);
    }
    /// A newer report: its markup and its data. The chosen graph, open details, zoom and the focus stay. The promise
    /// is fulfilled once all is drawn.
    update(main, data) {
      const fresh = new DOMParser().parseFromString('<!doctype html><body>' + main, 'text/html').body;
      reconcile(this.place, fresh);
      this.data = data;
      const choice = document.getElementById('choose-graph');
      if (choice) choice.value = String(this.number);
      // Each chart in a task of its own: a page with many ops answers in between.
      let last = Promise.resolve();
      this.show(this.number, act => {
        last = last.then(() => new Promise(done => setTimeout(() => {
          act();
          done();
        })));
      });
      return last;
    }
    articles() { return [...this.place.querySelectorAll('article')]; }
    show(number, run = act => act()) {
      const articles = this.articles();
      this.number = number = Math.max(0, Math.min(number, articles.length - 1));
      articles.forEach((article, i) => { article.hidden = i !== number; });
      if (articles.length === 0) return;
      const data = this.data, article = articles[number], graph = data.graphs[number];
      const charts = [...article.querySelectorAll('[data-chart]')];
      const drawn = graph.task && graph.task.steps.length > 0;
      if (!drawn) this.views.delete(article);
      if (drawn && this.views.has(article) && this.views.get(article).graph !== graph)
        run(() => this.views.get(article).update(graph));
      else if (drawn && !this.views.has(article)) this.views.set(article, new View(graph));
      for (const container of charts) run(() => {
        if (this.data === data && container.isConnected) this.draw(container, graph, this.views.get(article));
      });
    }
    draw(container, graph, view) {
      const chart = container.dataset.chart, made = this.charts.get(container);
      if (made && made.graph === graph) return;
      if (made && made.update) {
        made.update(graph);
      } else if (!made) {
        const kinds = {curve: learningCurve, gantt, memory, graph: graphView,
          scatter: () => scatter(container, graph.remeasured[Number(container.dataset.session)])};
        if (!view && ['gantt', 'memory', 'graph'].includes(chart)) return;
        this.charts.set(container, {update: (kinds[chart](container, graph, view) || {}).update});
      }
      this.charts.get(container).graph = graph;
      container.dataset.drawn = 'true';
    }
  }
  page.Report = Report;

  // --- A saved report ---

  const data = page.embedded();
  if (!data || !data.graphs) return;
  new Report(document.querySelector('main'), data);
  const state = document.getElementById('state');
  if (state && data.status) page.showState(state, data.status);
  page.ready();
})(emplacePage);
