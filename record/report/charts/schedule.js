'use strict';
// The schedule of a step: a lane per device and link, and the critical path.
(page => {
  const {time, bytes, count, percent, kPhases, element, table, asTable, colours, deviceColour, inkOn, shade,
    prepared, fitted, refill} = page;
  const {above, deviceName, laneName, folded, kGutter, kRight, navigable, stepTools, timeAxis, drawBand, follow} =
    page.step;

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
      graph = view.graph;
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
    function describe(step) {
      const chain = step.chain, all = Math.max(1, step.end);
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
    follow(container, view, draw, describe);
  }

  page.charts.gantt = gantt;
})(emplacePage);
