'use strict';
// What the scripts of all pages share: numbers as text, elements, tables, colours, canvases. Names reach a page as
// text only (textContent, fillText): never as markup.
const emplacePage = (() => {
  const root = document.documentElement;
  addEventListener('error', event => { root.dataset.error = event.message; });
  addEventListener('unhandledrejection', event => { root.dataset.error = String(event.reason); });

  // --- Formatting of numbers ---

  const significant = (value, unit) => value.toFixed(value >= 100 ? 0 : value >= 10 ? 1 : 2) + ' ' + unit;
  function time(ns) {
    const size = Math.abs(ns);
    if (size >= 1e9) return significant(ns / 1e9, 's');
    if (size >= 1e6) return (ns / 1e6).toFixed(1) + ' ms';
    return size >= 1e3 ? (ns / 1e3).toFixed(1) + ' µs' : ns.toFixed(0) + ' ns';
  }
  function bytes(value) {
    const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
    let at = 0;
    while (Math.abs(value) >= 1024 && at + 1 < units.length) value /= 1024, ++at;
    return at === 0 ? value + ' B' : value.toFixed(2) + ' ' + units[at];
  }
  const count = value => String(Math.round(value)).replace(/\B(?=(\d{3})+$)/g, ',');
  const percent = share => (share * 100).toFixed(share < 0.0995 ? 1 : 0) + ' %';
  const kPhases = ['forward', 'backward', 'update'];

  // --- DOM helpers ---

  function element(tag, properties, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(properties || {})) {
      if (name.startsWith('on')) made.addEventListener(name.slice(2), value);
      else if (name === 'class') made.className = value;
      else if (name in made && name !== 'role') made[name] = value;
      else made.setAttribute(name, value);
    }
    for (const child of children.flat()) if (child !== null && child !== undefined) made.append(child);
    return made;
  }
  function table(caption, heads, rows, kind = '') {
    return element('div', {class: 'scroll'}, element('table', {class: kind}, element('caption', {}, caption),
      element('thead', {}, element('tr', {}, heads.map(head => element('th', {scope: 'col'}, head)))),
      element('tbody', {}, rows.map(row => element('tr', {}, row.map((cell, i) =>
        i === 0 ? element('th', {scope: 'row'}, cell) : element('td', {}, cell)))))));
  }
  const asTable = (summary, ...tables) => element('details', {}, element('summary', {}, summary), tables);
  const tip = element('div', {class: 'tip', hidden: true, role: 'tooltip'});
  document.body.append(tip);
  function showTip(event, text) {
    tip.hidden = !text;
    if (!text) return;
    tip.textContent = text;
    const box = tip.getBoundingClientRect();
    tip.style.left = Math.max(4, Math.min(event.clientX + 14, innerWidth - box.width - 8)) + 'px';
    const above = event.clientY + 18 + box.height > innerHeight;
    tip.style.top = Math.max(4, event.clientY + (above ? -box.height - 10 : 18)) + 'px';
  }

  // --- Colours of the style sheet, light or dark ---

  let colours = {};
  function readColours() {
    const style = getComputedStyle(root);
    for (const name of ['ground', 'surface', 'ink', 'soft', 'faint', 'fainter', 'accent', 'good', 'bad', 'chain', 'cut',
           'uncut'])
      colours[name] = style.getPropertyValue('--' + name).trim();
    colours.devices = Array.from({length: 12}, (_, d) => style.getPropertyValue('--d' + d).trim());
  }
  readColours();
  const deviceColour = device => colours.devices[device % colours.devices.length];
  function mixed(a, b, share) {
    const part = (text, at) => parseInt(text.slice(at, at + 2), 16);
    return 'rgb(' + [1, 3, 5].map(at => Math.round(part(a, at) * share + part(b, at) * (1 - share))).join(' ') + ')';
  }
  /// A text colour that is readable on `colour`.
  const inkOn = colour => {
    const [r, g, b] = [1, 3, 5].map(at => parseInt(colour.slice(at, at + 2), 16));
    return r * 0.299 + g * 0.587 + b * 0.114 > 140 ? '#101215' : '#ffffff';
  };
  const kShades = [1, 0.62, 0.34];
  const shade = (device, phase) => mixed(deviceColour(device), colours.surface, kShades[phase]);
  const redraws = new Set();
  const redrawAll = () => { for (const {draw, container} of redraws) if (container.clientWidth > 0) draw(); };
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => { readColours(); redrawAll(); });
  let resizing = 0;
  addEventListener('resize', () => { cancelAnimationFrame(resizing); resizing = requestAnimationFrame(redrawAll); });

  const kFont = '12px system-ui, -apple-system, "Segoe UI", "Liberation Sans", sans-serif';
  /// Prepares a canvas of this height at device resolution; returns its context and width.
  function prepared(canvas, height) {
    const ratio = devicePixelRatio || 1;
    const width = canvas.parentElement.clientWidth;
    canvas.style.height = height + 'px';
    canvas.width = Math.round(width * ratio), canvas.height = Math.round(height * ratio);
    const context = canvas.getContext('2d');
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    context.font = kFont;
    context.textBaseline = 'middle';
    return [context, width];
  }
  function fitted(context, text, width) {
    if (context.measureText(text).width <= width) return text;
    let low = 0, high = text.length;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (context.measureText(text.slice(0, middle) + '…').width <= width) low = middle; else high = middle - 1;
    }
    return low === 0 ? '' : text.slice(0, low) + '…';
  }
  /// Round axis ticks: about `wanted` of them between two values.
  function ticks(from, to, wanted) {
    const raw = (to - from) / Math.max(1, wanted), power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].map(f => f * power).find(f => f >= raw) || 10 * power;
    const list = [];
    for (let at = Math.ceil(from / step) * step; at <= to; at += step) list.push(at);
    return list;
  }

  /// Horizontal lines {label, value, colour, dash} below the curves of a plot; their labels go into `marks`. For an
  /// underlayCallback of dygraphs.
  function markLines(context, area, chart, marks, lines) {
    const [bottom, top] = chart.yAxisRange(0);
    let last = Infinity;
    context.save();
    marks.replaceChildren(...lines.filter(line => line.value >= bottom && line.value <= top)
      .sort((a, b) => a.value - b.value).map(line => {
        const y = chart.toDomYCoord(line.value), mark = element('span', {class: 'line-label'}, line.label);
        context.strokeStyle = line.colour;
        context.setLineDash(line.dash || [7, 4]);
        context.beginPath();
        context.moveTo(area.x, y), context.lineTo(area.x + area.w, y);
        context.stroke();
        last = Math.min(y - 2, last - 14);
        mark.style.top = (last - 14) + 'px';
        return mark;
      }));
    context.restore();
  }
  /// A label of a time axis, of milliseconds.
  const tickOfMs = v => v === 0 ? '0' : v >= 1000 ? (v / 1000).toFixed(2) + ' s' : v >= 10 ? v.toFixed(0) + ' ms'
    : v >= 0.1 ? v.toFixed(2) + ' ms' : (v * 1000).toFixed(1) + ' µs';
  /// What all plots have in common.
  function plotLook() {
    // The legend of dygraphs, which no plot has, would need inline styles.
    Dygraph.PLUGINS = Dygraph.PLUGINS.filter(plugin => plugin !== Dygraph.Plugins.Legend);
    return {gridLineColor: colours.faint, axisLineColor: colours.faint, gridLineWidth: 0.6, highlightCircleSize: 3,
      rightGap: 12, axisLabelFontSize: 12, hideOverlayOnMouseOut: true, labelsKMB: false};
  }

  // --- Parts of a page that are drawn repeatedly ---

  /// Replaces the children of `parent`. What is open, scrolled or has the focus is found again by its position.
  function refill(parent, ...children) {
    const kFocusable = 'a, button, input, select, summary, [tabindex]', kScrolled = '.scroll, pre';
    const open = [...parent.querySelectorAll('details')].map(details => details.open);
    const focus = [...parent.querySelectorAll(kFocusable)].indexOf(document.activeElement);
    const scrolled = [...parent.querySelectorAll(kScrolled)].map(box => [box.scrollLeft, box.scrollTop]);
    parent.replaceChildren(...children.flat().filter(child => child !== null && child !== undefined));
    parent.querySelectorAll('details').forEach((details, i) => { if (open[i]) details.open = true; });
    parent.querySelectorAll(kScrolled).forEach((box, i) => {
      if (scrolled[i]) [box.scrollLeft, box.scrollTop] = scrolled[i];
    });
    if (focus >= 0) parent.querySelectorAll(kFocusable)[focus]?.focus({preventScroll: true});
  }
  /// Sets a text only if it differs: selections and the reading of screen readers survive.
  function setText(node, text) { if (node.textContent !== text) node.textContent = text; }
  /// Marks an HTML control as unavailable without taking the focus from it.
  function setDisabled(button, disabled) { button.setAttribute('aria-disabled', String(disabled)); }
  /// The JSON that is embedded in a saved page; null: none.
  function embedded() {
    const node = document.getElementById('data');
    return node ? JSON.parse(node.textContent) : null;
  }
  /// For programs that inspect the page.
  function ready() {
    root.dataset.scheme = matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light';
    root.dataset.loadMs = performance.now().toFixed(0);
    root.dataset.ready = 'true';
  }

  return {root, time, bytes, count, percent, kPhases, element, table, asTable, showTip, colours, deviceColour, inkOn,
    shade, redraws, redrawAll, kFont, prepared, fitted, ticks, markLines,
    tickOfMs, plotLook, refill, setText, setDisabled, embedded, ready};
})();
