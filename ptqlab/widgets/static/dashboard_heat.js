// The heatmap of a dashboard: rows that Python sends, drawn as they are; what is clicked is told. Arrow keys walk the
// cells, Enter and Space select the row's node. Rows out of sight cost nothing (content-visibility).

const SLICE = 20;

function made(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  // keys are for what has the focus; the lab looks for its shortcuts at the focused element first
  if (["select", "input", "button"].includes(tag)) element.dataset.lmSuppressShortcuts = "true";
  element.append(...children);
  return element;
}

class Heat {
  constructor(model, el) {
    Object.assign(this, { model, el, row: -1, lines: [] });
    this.head = made("div", { className: "ptqlab-head" });
    this.bar = made("div", { className: "ptqlab-bar" });
    this.table = made("div", { className: "ptqlab-heat-table", role: "grid" });
    this.table.style.maxHeight = `${model.get("height")}px`;
    this.table.addEventListener("click", (event) => this.pick(event.target.closest("[role=gridcell],[role=rowheader]")));
    this.table.addEventListener("keydown", (event) => this.key(event));
    el.classList.add("ptqlab-heat");
    el.append(this.head, this.bar, this.table);
    this.queue = Promise.resolve();
    this.hear = (message, buffers) => {
      this.queue = this.queue.then(() => this[`on_${message.kind}`]?.(message, buffers));
    };
    model.on("msg:custom", this.hear);
    model.send({ kind: "open" });
  }

  destroy() {
    this.model.off("msg:custom", this.hear);
  }

  async on_rows(message, [packed]) {
    const started = performance.now();
    const { words, columns, fills } = message;
    const rows = JSON.parse(await unpack(packed));
    hideStatic(message.model_id);
    this.head.textContent = message.title;
    this.drawBar(message);
    this.table.style.setProperty("--ptqlab-columns", columns.length);
    this.table.setAttribute("aria-label", message.title);
    this.table.setAttribute("aria-rowcount", rows.length + 1);
    const header = made("div", { className: "ptqlab-heat-row ptqlab-heat-header", role: "row" },
      ...[words.node, ...columns].map((text) => made("span", { role: "columnheader", textContent: text, title: text })));
    this.lines = [];
    this.table.replaceChildren(header);
    let breath = performance.now();
    for (const [index, [node, cells]] of rows.entries()) {
      const name = made("span", { role: "rowheader", tabIndex: -1, title: node }, made("bdi", { textContent: node }));
      const line = made("div", { className: "ptqlab-heat-row", role: "row" }, name,
        ...cells.map(([text, shade]) => {
          const cell = made("span", { role: "gridcell", tabIndex: -1, textContent: text });
          if (shade >= 0) [cell.style.background, cell.style.color] = fills[shade];
          return cell;
        }));
      line.dataset.row = index;
      for (const cell of line.children) cell.dataset.lmSuppressShortcuts = "true";
      this.lines.push(line);
      this.table.append(line);
      if (performance.now() - breath > SLICE) {  // thousands of rows: the page goes on between the slices
        await new Promise((resolve) => setTimeout(resolve));
        breath = performance.now();
      }
    }
    if (!rows.length) this.table.append(made("div", { textContent: words.none }));
    if (this.lines.length) this.lines[0].children[1].tabIndex = 0;
    this.mark(message.row);
    this.el.dataset.ready = Math.round(performance.now() - started);
  }

  on_focus({ row }) {
    this.mark(row);
    this.lines[row]?.scrollIntoView({ block: "nearest" });
  }

  drawBar({ words, metrics, metric, all, of, fills }) {
    const select = made("select", {}, ...metrics.map((name) => made("option", { value: name, textContent: name })));
    select.value = metric;
    select.addEventListener("change", () => this.model.send({ kind: "metric", metric: select.value }));
    const every = made("input", { type: "checkbox", checked: all });
    every.addEventListener("change", () => this.model.send({ kind: "all", all: every.checked }));
    const ramp = made("span", { className: "ptqlab-heat-ramp", ariaHidden: "true" });
    ramp.style.background = `linear-gradient(to right, ${fills.map(([fill]) => fill).join(",")})`;
    this.bar.replaceChildren(
      ...(metrics.length > 1 ? [made("label", {}, words.metric, select)] : []),
      ...(of > 50 ? [made("label", {}, every, words.all)] : []),
      made("span", { className: "ptqlab-heat-key" }, words.best, ramp, words.worst));
  }

  mark(row) {
    this.lines[this.row]?.removeAttribute("aria-selected");
    this.lines[row]?.setAttribute("aria-selected", "true");
    this.row = row;
  }

  pick(cell) {
    if (!cell) return;
    const row = Number(cell.parentElement.dataset.row);
    this.move(cell);
    this.mark(row);
    this.model.send({ kind: "select", row });
  }

  move(cell) {
    this.table.querySelector("[tabindex='0']")?.setAttribute("tabindex", "-1");
    cell.tabIndex = 0;
    cell.focus({ preventScroll: true });
    cell.scrollIntoView({ block: "nearest" });
  }

  key(event) {
    const cell = event.target.closest("[tabindex]");
    const line = cell?.parentElement;
    const column = line ? [...line.children].indexOf(cell) : -1;
    if (!line?.dataset.row) return;
    const row = Number(line.dataset.row);
    const to = { ArrowUp: [row - 1, column], ArrowDown: [row + 1, column], ArrowLeft: [row, column - 1],
      ArrowRight: [row, column + 1], Home: [0, column], End: [this.lines.length - 1, column] }[event.key];
    if (to) {
      const next = this.lines[to[0]]?.children[to[1]];
      if (next) this.move(next);
    } else if (event.key === "Enter" || event.key === " ") {
      this.pick(cell);
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  }
}

export default {
  render({ model, el }) {
    const heat = new Heat(model, el);
    return () => heat.destroy();
  },
};
