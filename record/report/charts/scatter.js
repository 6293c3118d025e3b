'use strict';
// Predicted against measured step times.
(page => {
  const {time, count, percent, element, table, asTable, colours, redraws, prepared, ticks} = page;

  function scatter(container, graph) {
    const session = graph.remeasured[Number(container.dataset.session)];
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

  page.charts.scatter = scatter;
})(emplacePage);
