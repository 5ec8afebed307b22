"use strict";
(() => {
  const table = document.getElementById("all");
  const body = table.tBodies[0];
  const heads = [...table.tHead.rows[0].cells];
  const isText = (at) => heads[at].classList.contains("t");
  const find = document.getElementById("find");
  const only = document.getElementById("only");
  const shown = document.getElementById("shown");
  const rows = [...body.rows].map((row, order) => ({
    row,
    order,
    is: row.className,
    text: heads.map((_, at) => (isText(at) ? row.cells[at].textContent : "")).join(" ").toLowerCase(),
  }));

  // Parse numbers such as 1,234 and +0.0123* and −0.5 and "< 0.0001"; a dash becomes NaN.
  const number = (text) => parseFloat(text.replace(/,/g, "").replace("−", "-").replace("< ", "0"));

  const compare = (at, sign) => (a, b) => {
    const [x, y] = [a.row.cells[at].textContent, b.row.cells[at].textContent];
    if (isText(at)) return sign * x.localeCompare(y) || a.order - b.order;
    const [u, v] = [number(x), number(y)];
    if (Number.isNaN(u) || Number.isNaN(v)) return Number.isNaN(u) - Number.isNaN(v) || a.order - b.order;
    return sign * (u - v) || a.order - b.order;
  };

  heads.forEach((head, at) => {
    head.querySelector("button").addEventListener("click", () => {
      const was = head.getAttribute("aria-sort");
      const up = was ? was === "descending" : isText(at) || head.dataset.better === "lower";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      rows.sort(compare(at, up ? 1 : -1));
      body.append(...rows.map(({ row }) => row));
    });
  });

  const filter = () => {
    const words = find.value.toLowerCase().split(/\s+/).filter(Boolean);
    let count = 0;
    for (const { row, text, is } of rows) {
      row.hidden = !words.every((word) => text.includes(word)) || (only.value !== "" && is !== only.value);
      count += !row.hidden;
    }
    shown.textContent = count === rows.length ? `${count} rows` : `${count} of ${rows.length} rows`;
  };
  find.addEventListener("input", filter);
  only.addEventListener("change", filter);
  document.getElementById("view").addEventListener("change", (event) => {
    table.dataset.view = event.target.value;
  });
  // After a reload, use the choice that the browser kept.
  table.dataset.view = document.querySelector("#view input:checked").value;
  filter();
})();
