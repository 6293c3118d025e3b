'use strict';
// Several runs beside each other: a table, and their best step times over each other.
(page => {
  const {
    time,
    count,
    element,
    asTable,
    table,
    colours,
    deviceColour,
    redraws,
    markLines,
    tickOfMs,
    plotLook,
    refill,
    setText
  } = page;
  const {runs, left_out: leftOut} = page.embedded();
  const kMostCurves = 24;
  const kDashes = [null, [8, 3], [2, 3]];  // Beyond the number of colours the pattern differs.

  // --- Columns ---

  const over = (value, other) => value > 0 && other > 0 ? value / other - 1 : null;
  const share = value => value === null ? '' : (value < 0 ? '−' : '+') + page.percent(Math.abs(value));
  const duration = ms => ms < 6e4 ? (ms / 1e3).toFixed(1) + ' s' : ms < 36e5
    ? Math.floor(ms / 6e4) + ' min ' + Math.round(ms % 6e4 / 1e3) + ' s' : (ms / 36e5).toFixed(1) + ' h';
  const kColumns = [
    {head: 'Run', value: run => run.name, title: run => run.directory}, {head: 'Method', value: run => run.method},
    {head: 'Graph', value: run => run.graph}, {head: 'Machine', value: run => run.machine},
    {head: 'State', value: run => run.state},
    {head: 'Best', value: run => run.best || null, shown: value => value === null ? 'none yet' : time(value)},
    {head: 'Compared with the best heuristic', value: run => over(run.best, run.heuristic), shown: share},
    {head: 'Above bound', value: run => over(run.best, run.bound), shown: share},
    {head: 'Measured', value: run => run.measurements, shown: count},
    {head: 'Time', value: run => run.wall, shown: duration},
    {
      head: 'Entropy', value: run => run.entropy + (run.warning ? ', saturated' : ''), title: run => run.warning
    }];
  const isText = column => !column.shown;

  const main = document.querySelector('main');
  const state = {find: '', graph: '', by: -1, sign: 1, mode: 'time', drawn: new Set()};
  const comparable = run => (state.graph === '' || run.graph === state.graph) &&
    (state.find === '' || kColumns.slice(0, 5).some(column => column.value(run).toLowerCase().includes(state.find)));
  function visible() {
    const list = runs.filter(comparable), column = kColumns[state.by];
    if (!column) return list;
    const worst = value => value === null ? Infinity : value;  // What is unknown comes last.
    return list.sort((a, b) => {
      const x = column.value(a), y = column.value(b);
      if (isText(column)) return state.sign * (x < y ? -1 : x > y ? 1 : 0);
      return x === null || y === null ? worst(x) - worst(y) || 0 : state.sign * (x - y);
    });
  }
  /// The runs whose curves are drawn: those that are ticked, of those that the table shows.
  const curves = () => visible().filter(run => state.drawn.has(run)).slice(0, kMostCurves);
  const styleOf = i =>
    ({color: deviceColour(i), strokePattern: kDashes[Math.floor(i / colours.devices.length) % kDashes.length]});
  function swatchOf(i) {
    const swatch = element('span', {class: 'swatch'});
    const {color, strokePattern} = styleOf(i);
    swatch.style.background = strokePattern ? 'repeating-linear-gradient(90deg, ' + color + ' 0 ' + strokePattern[0] +
        'px, transparent 0 ' + (strokePattern[0] + strokePattern[1]) + 'px)'
                                            : color;
    return swatch;
  }

  // --- The curves ---

  const kModes = {
    time: {label: 'Step time', of: () => 1e6, tick: tickOfMs, shown: value => time(value * 1e6)},
    heuristic: {
      label: 'Step time / best heuristic',
      of: run => run.heuristic,
      tick: v => v.toFixed(2),
      shown: v => v.toFixed(3)
    },
    bound: {label: 'Step time / proven bound', of: run => run.bound, tick: v => v.toFixed(2), shown: v => v.toFixed(3)}
  };
  class Curves {
    constructor(place) {
      this.plot = element('div', {class: 'plot', role: 'img'}), this.marks = element('div', {class: 'marks'});
      this.legend = element('ul', {class: 'legend'}), this.read = element('p', {class: 'read', role: 'status'});
      this.tables = element('div', {});
      const mode = element('select', {onchange: () => { state.mode = mode.value; this.draw(); }},
        Object.entries(kModes).map(([value, {label}]) => element('option', {value}, label)));
      const reset =
        element('button', {type: 'button', onclick: () => this.chart && this.chart.resetZoom()}, 'Whole runs');
      place.append(element('section', {class: 'chart'}, element('h3', {}, 'Best step time so far'),
        element('div', {class: 'tools'}, element('label', {}, 'Axis ', mode), element('span', {class: 'gap'}), reset),
        element('div', {class: 'with-marks'}, this.plot, this.marks), this.legend, this.read, this.tables));
      redraws.add({container: place, draw: () => this.draw()});
    }
    draw() {
      if (this.chart) this.chart.destroy();
      this.chart = null;
      const mode = kModes[state.mode], shown = curves().filter(run => run.at.length > 0 && mode.of(run) > 0);
      const without = curves().length - shown.length;
      const scaled = shown.map(run => run.best_at.map(value => value / mode.of(run)));
      const rows = new Map();
      shown.forEach((run, i) => run.at.forEach((ms, k) => {
        if (!rows.has(ms)) rows.set(ms, [ms / 1e3, ...shown.map(() => null)]);
        rows.get(ms)[i + 1] = scaled[i][k];
      }));
      const list = [...rows.values()].sort((a, b) => a[0] - b[0]);
      refill(this.legend, shown.map((run, i) => element('li', {}, swatchOf(i), element('bdi', {}, run.name))));
      setText(this.read, shown.length === 0 ? 'Tick runs in the table to draw their curves.'
        : without > 0 ? count(without) + ' of the ticked runs cannot be drawn on this axis.' : '');
      this.plot.hidden = shown.length === 0;
      this.marks.replaceChildren();
      this.plot.setAttribute('aria-label',
        shown.length + ' curves of the best step time over the time of a run. The table below has their numbers.');
      const at = [0.25, 0.5, 0.75, 1];
      refill(this.tables,
        asTable('The curves as a table',
          table(mode.label + ' after a share of the run', ['Run', ...at.map(page.percent)],
            shown.map((run, i) => [element('bdi', {}, run.name), ...at.map(part => {
              const k = run.at.findLastIndex(ms => ms <= part * run.at.at(-1));
              return k < 0 ? '' : mode.shown(scaled[i][k]);
            })]))));
      if (shown.length === 0) return;
      const ends = scaled.map(values => values.at(-1)),
            firsts = scaled.map(values => values[Math.floor(values.length / 20)]);
      const levels = this.levels(shown);
      const low = Math.min(...ends, ...levels.map(line => line.value)),
            high = Math.max(...firsts, ...levels.map(line => line.value));
      const labels = ['t', ...shown.map((_, i) => 'r' + i)];
      this.chart = new Dygraph(this.plot, list, {
        ...plotLook(),
        labels,
        stepPlot: true,
        connectSeparatedPoints: true,
        strokeWidth: 1.8,
        series: Object.fromEntries(shown.map((_, i) => ['r' + i, styleOf(i)])),
        xlabel: 'seconds since the start of a run',
        valueRange: [low - (high - low || low) * 0.06, high + (high - low || low) * 0.08],
        highlightSeriesOpts: {strokeWidth: 3.4},
        axes: {y: {axisLabelFormatter: mode.tick, axisLabelWidth: 64}, x: {axisLabelFormatter: v => count(v)}},
        underlayCallback: (context, area, chart) => markLines(context, area, chart, this.marks, levels),
        highlightCallback: (event, x, points, row, name) => {
          const run = shown[Number(name.slice(1))], point = points.find(one => one.name === name);
          if (run && point) setText(this.read, run.name + ' at ' + x.toFixed(1) + ' s: ' + mode.shown(point.yval));
        }
      });
      for (const canvas of this.plot.querySelectorAll('canvas')) canvas.setAttribute('aria-hidden', 'true');
    }
    /// Lines that all drawn runs share.
    levels(shown) {
      const same = field =>
        shown.every(run => run[field] > 0 && run[field] === shown[0][field]) ? shown[0][field] / 1e6 : 0;
      const lines = state.mode === 'time'
        ? [{label: 'best heuristic', value: same('heuristic'), colour: colours.soft},
          {label: 'proven bound', value: same('bound'), colour: colours.ink, dash: [2, 3]}]
        : [{label: kModes[state.mode].label.slice('Step time / '.length), value: 1, colour: colours.soft}];
      return lines.filter(line => line.value > 0);
    }
  }

  // --- The table ---

  class Table {
    constructor(place, curves_) {
      this.curves = curves_;
      const find = element('input', {
        type: 'search',
        size: 24,
        spellcheck: false,
        oninput: () => {
          state.find = find.value.trim().toLowerCase();
          this.draw();
        }
      });
      const graphs = [...new Set(runs.map(run => run.graph))].sort();
      const graph = element('select', {
        onchange: () => {
          state.graph = graph.value;
          this.draw();
        }
      },
        element('option', {value: ''}, 'all graphs'), graphs.map(name => element('option', {value: name}, name)));
      this.count = element('span', {role: 'status'});
      this.heads = kColumns.map((column, i) => element('th', {scope: 'col', class: isText(column) ? 'text' : ''},
                                  element('button', {
                                    type: 'button',
                                    onclick: () => {
                                      state.sign = state.by === i ? -state.sign : 1, state.by = i;
                                      this.draw();
                                    }
                                  },
                                    column.head)));
      this.body = element('tbody', {});
      place.append(element('section', {}, element('h3', {}, 'Runs'),
        element('div', {class: 'tools'}, element('label', {}, 'Find ', find),
          graphs.length > 1 ? element('label', {}, 'Graph ', graph) : null, this.count, element('span', {class: 'gap'}),
          element('button', {type: 'button', onclick: () => this.tick(true)}, 'Draw the first ' + kMostCurves),
          element('button', {type: 'button', onclick: () => this.tick(false)}, 'Draw none')),
        element('div', {class: 'scroll'},
          element('table', {class: 'sortable runs'},
            element('caption', {}, 'A tick draws the curve of a run; a head sorts'),
            element('thead', {}, element('tr', {}, element('th', {scope: 'col'}, 'Curve'), this.heads)), this.body))));
      this.rows = new Map(runs.map(run => [run, this.row(run)]));
    }
    row(run) {
      const box = element('input', {type: 'checkbox', 'aria-label': 'Draw the curve of ' + run.name, onchange: () => {
        if (!state.drawn.delete(run)) state.drawn.add(run);
        this.draw();
      }});
      const colour = element('span', {});
      const cells = kColumns.map((column, i) => {
        const value = column.value(run);
        return element(i === 0 ? 'th' : 'td', {
          class: isText(column) ? 'text' : '',
          ...(i === 0 && {scope: 'row'}),
          ...(column.title && {title: column.title(run)})
        },
          isText(column) ? element('bdi', {}, value) : column.shown(value));
      });
      return {box, colour, line: element('tr', {}, element('td', {}, box, colour), cells)};
    }
    tick(all) {
      state.drawn = new Set(all ? visible().filter(run => run.at.length > 0).slice(0, kMostCurves) : []);
      this.draw();
    }
    draw() {
      const shown = visible(), drawn = curves();
      for (const run of shown) {
        const {box, colour} = this.rows.get(run), i = drawn.indexOf(run);
        box.checked = state.drawn.has(run);
        colour.replaceChildren(...(i < 0 ? [] : [swatchOf(i)]));
      }
      const focus = document.activeElement;
      this.body.replaceChildren(...shown.map(run => this.rows.get(run).line));
      if (this.body.contains(focus)) focus.focus({preventScroll: true});
      setText(this.count,
        count(shown.length) + (shown.length === runs.length ? '' : ' of ' + count(runs.length)) + ' runs' +
          (leftOut > 0 ? '; ' + count(leftOut) + ' more do not fit on this page' : '') +
          (drawn.length < [...state.drawn].filter(comparable).length
              ? '; the curves of the first ' + kMostCurves + ' are drawn'
              : ''));
      this.heads.forEach((head, i) => head.setAttribute('aria-sort',
                           state.by !== i     ? 'none'
                             : state.sign > 0 ? 'ascending'
                                              : 'descending'));
      this.curves.draw();
    }
  }

  if (runs.length === 0) {
    main.append(element('section', {}, element('p', {}, 'There is no run here.')));
  } else {
    const made = new Table(main, new Curves(main));
    made.tick(true);
  }
  page.ready();
})(emplacePage);
