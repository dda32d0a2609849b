"use strict";
(() => {
  const $ = (id) => document.getElementById(id);
  const make = (name, text, className) => {
    const element = document.createElement(name);
    if (text !== undefined) element.textContent = text;
    if (className) element.className = className;
    return element;
  };
  const data = JSON.parse($("data").textContent);
  const rails = data.rails.length;

  // As the report's texts have it: three digits in the unit that suits.
  const rate = (gbps) => {
    const [value, unit] = gbps >= 0.9995 ? [gbps, "Gb/s"]
      : gbps >= 0.0009995 ? [gbps * 1e3, "Mb/s"]
      : gbps > 0 ? [gbps * 1e6, "kb/s"] : [0, "Gb/s"];
    return value.toFixed(value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2) + " " + unit;
  };

  // A row of the data: device, directions, state, reason, findings.
  const nics = data.nics.map(([device, ways, state, why, findings], at) => {
    const seen = ways.filter((way) => way);
    const expected = seen.map((way) => way[1]);
    return {
      node: Math.floor(at / rails),
      rail: at % rails,
      device: device === null ? null : data.words[device],
      ways, state, findings,
      why: why === null ? null : data.words[why],
      tx: ways[0] ? ways[0][0] : null,
      rx: ways[1] ? ways[1][0] : null,
      expected: expected.length && expected[0] !== null ? expected[0] : null,
      share: seen.length ? Math.min(...seen.map((way) => way[2])) : null,
    };
  });

  const filterFindings = () => {
    const form = $("finding-filter");
    if (!form) return;
    const all = [...document.querySelectorAll(".finding, .finding-line")];
    const words = new Map();
    const text = (element) => {
      if (!words.has(element)) words.set(element, element.textContent.toLowerCase());
      return words.get(element);
    };
    const apply = () => {
      const value = (name) => form.elements[name].value.trim().toLowerCase();
      const [severity, rule, node, part] = ["severity", "rule", "node", "text"].map(value);
      let shown = 0;
      for (const element of all) {
        const { severity: s, rule: r, nodes } = element.dataset;
        const fits = (!severity || s === severity) && (!rule || r === rule)
          && (!node || nodes.toLowerCase().includes(node)) && (!part || text(element).includes(part));
        element.hidden = !fits;
        shown += fits;
      }
      for (const brief of document.querySelectorAll("details.brief")) {
        brief.hidden = !brief.querySelector("li:not([hidden])");
      }
      $("finding-count").value = `${shown} of ${all.length} shown`;
    };
    form.hidden = false;
    form.addEventListener("input", apply);
    form.addEventListener("reset", () => setTimeout(apply));
    form.addEventListener("submit", (event) => event.preventDefault());
  };

  let showNode = () => {};
  const tableOfNics = () => {
    const table = $("nic-table"), form = $("nic-filter"), pager = $("nic-pager");
    if (!table) return;
    const PAGE = 100;
    const names = new Intl.Collator("en", { numeric: true });
    // Nodes in the order of their names, once: comparing names again and again takes long.
    const place = new Array(data.nodes.length);
    data.nodes.map((_, at) => at)
      .sort((a, b) => names.compare(data.nodes[a], data.nodes[b]))
      .forEach((node, at) => { place[node] = at; });
    const keys = {
      node: (nic) => place[nic.node], rail: (nic) => data.rails[nic.rail],
      device: (nic) => nic.device, tx: (nic) => nic.tx, rx: (nic) => nic.rx,
      expected: (nic) => nic.expected, share: (nic) => nic.share, state: (nic) => nic.state,
    };
    const worst = (a, b) => a.state - b.state || (a.share ?? -1) - (b.share ?? -1);
    let sort = null, down = false, page = 0, rows = [];

    // What is not known comes last, whichever way.
    const compare = (a, b) => {
      const key = keys[sort], [x, y] = [key(a), key(b)];
      if (x === null || y === null) return (x === null) - (y === null) || worst(a, b);
      const order = typeof x === "string" ? names.compare(x, y) : x - y;
      return (down ? -order : order) || worst(a, b);
    };
    const cell = (row, text, className, soft) => {
      const td = make("td", undefined, className);
      td.append(soft ? make("span", text, "soft") : text);
      row.append(td);
      return td;
    };
    const line = (nic) => {
      const row = make("tr");
      const head = make("th");
      head.scope = "row";
      const picture = data.pictures[nic.node];
      if (picture === null) head.textContent = data.nodes[nic.node];
      else {
        const link = make("a", data.nodes[nic.node]);
        link.href = `#pcie-${picture}`;
        link.title = "Its PCIe picture";
        head.append(link);
      }
      row.append(head);
      cell(row, String(data.rails[nic.rail]), "num");
      cell(row, nic.device ?? "none known", "", nic.device === null);
      for (const value of [nic.tx, nic.rx]) {
        cell(row, value === null ? "not measured" : rate(value), "num", value === null);
      }
      const expected = nic.ways.filter((way) => way).map((way) => way[1] === null ? "unknown" : rate(way[1]));
      cell(row, [...new Set(expected)].join(" / ") || "unknown", "num", !expected.length);
      cell(row, nic.share === null ? "–" : nic.share.toFixed(2), "num");
      const [words, className] = data.states[nic.state];
      cell(row, "", "").replaceChildren(make("span", words, `tag ${className}`));
      const why = cell(row, "", "why");
      why.replaceChildren();
      for (const [number, word] of nic.findings) {
        const link = make("a", data.words[word]);
        link.href = `#f${number}`;
        why.append(link, " ");
      }
      if (nic.why !== null) why.append(nic.why);
      return row;
    };
    const show = () => {
      const pages = Math.max(1, Math.ceil(rows.length / PAGE));
      page = Math.min(page, pages - 1);
      const from = page * PAGE, part = rows.slice(from, from + PAGE);
      table.tBodies[0].replaceChildren(...part.map(line));
      table.caption.textContent = rows.length === 0 ? "No NIC is like that."
        : `${from + 1} to ${from + part.length} of ${rows.length}${sort ? "" : ", the worst first"}.`;
      const [back, where, on] = pager.children;
      back.disabled = page === 0;
      on.disabled = page === pages - 1;
      where.textContent = `Page ${page + 1} of ${pages}`;
      pager.hidden = pages === 1;
      $("nic-count").value = `${rows.length} of ${nics.length} shown`;
    };
    const apply = () => {
      const value = (name) => form.elements[name].value;
      const text = value("text").trim().toLowerCase();
      const [rail, state] = [value("rail"), value("state")];
      rows = nics.filter((nic) => (!rail || nic.rail === Number(rail))
        && (!state || nic.state === Number(state))
        && (!text || data.nodes[nic.node].toLowerCase().includes(text)
          || (nic.device ?? "").toLowerCase().includes(text)));
      rows.sort(sort ? compare : worst);
      page = 0;
      show();
    };
    for (const head of table.querySelectorAll("th[data-key]")) {
      const button = make("button", head.textContent);
      button.type = "button";
      head.replaceChildren(button);
      head.setAttribute("aria-sort", "none");
      button.addEventListener("click", () => {
        down = sort === head.dataset.key && !down;
        sort = head.dataset.key;
        for (const other of table.querySelectorAll("th[data-key]")) other.setAttribute("aria-sort", "none");
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        apply();
      });
    }
    const turn = (text, by) => {
      const button = make("button", text);
      button.type = "button";
      button.addEventListener("click", () => { page += by; show(); });
      return button;
    };
    pager.append(turn("Previous", -1), make("span"), turn("Next", 1));
    form.hidden = false;
    form.addEventListener("input", apply);
    form.addEventListener("reset", () => setTimeout(apply));
    form.addEventListener("submit", (event) => event.preventDefault());
    rows = nics.slice().sort(worst);
    show();
    showNode = (node) => {
      form.elements.text.value = data.nodes[node];
      apply();
      $("nics").scrollIntoView();
    };
  };

  // Numbers of the cell below the pointer, or that the arrow keys have come to.
  const maps = () => {
    const LINE = 64, STEP = 10;
    for (const figure of document.querySelectorAll("figure.rail")) {
      const rail = Number(figure.dataset.rail), map = figure.querySelector(".map");
      const output = figure.querySelector("output"), lines = [...map.querySelectorAll("svg")];
      let at = 0;
      const box = document.createElementNS("http://www.w3.org/2000/svg", "rect");
      box.setAttribute("class", "here");
      for (const [name, value] of [["width", STEP], ["height", 13], ["y", -0.5]]) box.setAttribute(name, value);
      const words = (way, name) => {
        if (!way) return `${name} not measured`;
        const of = way[1] === null ? "of the best of its rail" : `of ${rate(way[1])}`;
        return `${name} ${rate(way[0])} (${way[2].toFixed(2)} ${of})`;
      };
      const show = (node) => {
        at = Math.max(0, Math.min(data.nodes.length - 1, node));
        const nic = nics[at * rails + rail];
        box.setAttribute("x", (at % LINE) * STEP);
        lines[Math.floor(at / LINE)].append(box);
        output.value = [data.nodes[at], nic.device ?? "no NIC known",
          words(nic.ways[0], "tx"), words(nic.ways[1], "rx"), nic.why ?? ""].filter((part) => part).join(" · ");
      };
      const hide = () => { box.remove(); output.value = ""; };
      const under = (event) => {
        const svg = event.target.closest(".line")?.querySelector("svg");
        if (!svg) return -1;
        const { left, width } = svg.getBoundingClientRect();
        const from = Number(svg.dataset.from);
        const cell = Math.floor((event.clientX - left) / width * (svg.viewBox.baseVal.width / STEP));
        const node = from + cell;
        return cell < 0 || cell >= LINE || node >= data.nodes.length ? -1 : node;
      };
      map.tabIndex = 0;
      map.setAttribute("role", "application");
      map.setAttribute("aria-label", `${map.getAttribute("aria-label")} Arrow keys move from node to node.`);
      map.addEventListener("pointermove", (event) => { const node = under(event); if (node >= 0) show(node); });
      map.addEventListener("pointerdown", (event) => { const node = under(event); if (node >= 0) show(node); });
      map.addEventListener("pointerleave", () => { if (document.activeElement !== map) hide(); });
      map.addEventListener("dblclick", () => showNode(at));
      map.addEventListener("focus", () => show(at));
      map.addEventListener("blur", hide);
      map.addEventListener("keydown", (event) => {
        const by = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -LINE, ArrowDown: LINE }[event.key];
        if (by !== undefined) show(at + by);
        else if (event.key === "Home") show(0);
        else if (event.key === "End") show(data.nodes.length - 1);
        else if (event.key === "Enter") return showNode(at);
        else return;
        event.preventDefault();
      });
    }
  };

  // A link to something folded away opens it.
  const unfold = () => {
    const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    for (let part = target; part; part = part.parentElement) if (part.localName === "details") part.open = true;
    target.scrollIntoView();
  };

  // On paper everything that folds is open.
  let folded = [];
  addEventListener("beforeprint", () => {
    folded = [...document.querySelectorAll("details:not([open]):not(.group)")];
    for (const part of folded) part.open = true;
  });
  addEventListener("afterprint", () => { for (const part of folded) part.open = false; });
  addEventListener("hashchange", unfold);

  filterFindings();
  tableOfNics();
  maps();
  unfold();
})();
