// Search in pages that were opened from disk: a browser gives file:// pages neither a worker nor XMLHttpRequest, which
// mkdocs' search/main.js uses, so the index comes as a script (scripts/docs_hook.py) and the search runs in the page.
if (location.protocol === "file:") {
  const load = (path) => new Promise((done) => {
    const script = document.createElement("script");
    script.src = base_url + "/search/" + path;
    script.onload = done;
    document.head.append(script);
  });
  const ready = Promise.all([load("lunr.js"), load("search_index.js")]).then(() => {
    const pages = new Map(search_index.docs.map((page) => [page.location, page]));
    const index = lunr(function () {
      this.ref("location");
      this.field("title");
      this.field("text");
      search_index.docs.forEach((page) => this.add(page));
    });
    window.doSearch = () => {
      const query = document.getElementById("mkdocs-search-query").value;
      const found = query.length < search_index.config.min_search_length ? [] : index.search(query);
      displayResults(found.map(({ref}) => ({...pages.get(ref), summary: pages.get(ref).text.slice(0, 200)})));
    };
  });
  window.addEventListener("load", () => ready.then(() => {
    if (document.getElementById("mkdocs-search-results")) initSearch();
  }));
}
