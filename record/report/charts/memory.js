'use strict';
// The memory of each device over a step.
(page => {
  const {time, bytes, percent, element, table, asTable, colours, deviceColour, prepared, fitted, refill} =
    page;
  const {above, deviceName, kGutter, kRight, navigable, stepTools, timeAxis, drawBand, follow} = page.step;

  function memory(container, graph, view) {
    const canvas = element('canvas', {role: 'img'}), tables = element('div', {}), sentence = element('p', {});
    container.append(sentence, stepTools(view), element('div', {}, canvas), tables);
    const kRow = graph.devices.length > 6 ? 46 : 74, kGap = 14;
    function draw() {
      graph = view.graph;
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
    function describe(step) {
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
    follow(container, view, draw, describe);
  }

  page.charts.memory = memory;
})(emplacePage);
