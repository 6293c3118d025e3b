'use strict';
// The step times that a run measures, over placements or time, beside heuristics and the bound.
(page => {
  const {time, count, percent, element, table, asTable, colours, redraws, markLines, tickOfMs, plotLook, refill} =
    page;
  const {above} = page.step;

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

  page.charts.curve = learningCurve;
})(emplacePage);
