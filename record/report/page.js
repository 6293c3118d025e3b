'use strict';
// The report as a whole. A chart can get newer data: the choices of the reader stay.
(page => {
  const {redraws, redrawAll, refill} = page;
  const {View} = page.step;

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
        if (!view && ['gantt', 'memory', 'graph'].includes(chart)) return;
        this.charts.set(container, {update: (page.charts[chart](container, graph, view) || {}).update});
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
