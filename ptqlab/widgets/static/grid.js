// The grid of a quant_config: it draws the rows that Python sends and asks Python for every change. A cell shows a new
// value only when Python has sent it, so an edit that is refused never stands there.

const COSINES = new Set(["Calibrated Cosine", "Quantized Cosine"]);
const WIDTHS = { Node: 216, NodeType: 96, ON: 58, qtype: 108, Granted: 90, "Latency %": 78, Reason: 460, input0: 74, input1: 74, input2: 74, calibration_type: 108, asymmetric: 98 };
const MANY = 200;

function made(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

/** A select whose choices are [value, words] pairs; values keep their type. */
function choice(pairs, chosen, label) {
  const select = made("select", { ariaLabel: label }, ...pairs.map(([, words]) => made("option", { textContent: words })));
  select.selectedIndex = Math.max(0, pairs.findIndex(([value]) => value === chosen));
  return [select, () => pairs[select.selectedIndex]?.[0]];
}

/** A moment later, when what was asked of the page is drawn; frames do not come in a tab behind others. */
function drawn() {
  return new Promise((resolve) => setTimeout(resolve, 20));
}

function filled(words, values) {
  return words.replace(/\{(\w+)\}/g, (whole, key) => values[key] ?? whole);
}

/** What a cell says; numbers are words when they are none. */
function written(field, value) {
  if (value === null || value === undefined) return "";
  if (typeof value !== "number") return String(value);
  if (COSINES.has(field) || field === "Sensitivity") return value.toFixed(6);
  return field === "Latency %" ? value.toFixed(1) : String(Number(value.toPrecision(6)));
}

/** Colour behind a figure that stands there in numbers, too: orange for far from 1, a blue bar for a share. */
function behind(field, value, largest) {
  if (typeof value !== "number") return value === "NaN" && COSINES.has(field) ? "rgba(213,94,0,.55)" : "";
  if (COSINES.has(field)) return `rgba(213,94,0,${(0.55 * Math.min(1, Math.sqrt(Math.max(0, 1 - value) / 0.05))).toFixed(3)})`;
  if (field !== "Latency %" || !largest) return "";
  const share = ((100 * value) / largest).toFixed(1);
  return `linear-gradient(to right, rgba(0,114,178,.35) ${share}%, transparent ${share}%)`;
}

class Grid {
  constructor(model, el) {
    Object.assign(this, { model, el, id: token(), head: null, table: null, pending: [], focus: null, largest: 0 });
    this.style = made("style");
    this.bar = made("div", { className: "ptqlab-grid-bar" });
    this.effect = made("div", { className: "ptqlab-grid-effect" });
    this.host = made("div", { className: "ptqlab-grid-table" });
    this.status = made("div", { className: "ptqlab-grid-status", role: "status" });
    this.progress = made("progress", { hidden: true, max: 1 });
    this.foot = made("div", { className: "ptqlab-grid-foot" }, this.status, this.progress);
    el.classList.add("ptqlab-grid");
    el.append(this.style, this.bar, this.effect, this.host, this.foot);
    this.host.addEventListener("keydown", (event) => this.key(event));
    this.release = ownKeys(el, isUndo);
    this.queue = Promise.resolve();
    this.hear = (message, buffers) => {
      if (message.to && message.to !== this.id) return;  // an answer to another view of the same grid
      // one after the other: unpacking rows takes a moment, and what follows speaks of them
      this.queue = this.queue.then(() => this[`on_${message.kind}`]?.(message, buffers)).catch((error) => this.say("error", String(error)));
    };
    model.on("msg:custom", this.hear);
    model.send({ kind: "open", to: this.id });
  }

  destroy() {
    this.model.off("msg:custom", this.hear);
    this.release();
    this.table?.destroy();
  }

  say(level, text) {
    this.status.textContent = text;
    this.status.dataset.level = level;
  }

  // ---------------------------------------------------------------- what Python says

  async on_rows(message, [packed]) {
    const started = performance.now();
    const { TabulatorFull } = await moduleOf(this.model, "tabulator", "js/tabulator_esm.min.mjs");
    this.style.textContent ||= (await assets(this.model, "tabulator"))["css/tabulator.min.css"];
    hideStatic(message.model_id);
    this.head = message;
    this.options = message.options;
    this.rows = JSON.parse(await unpack(packed));
    this.largest = Math.max(0, ...this.rows.map((row) => (typeof row["Latency %"] === "number" ? row["Latency %"] : 0)));
    this.drawBar();
    const first = !this.table;
    const scroll = this.table?.element.querySelector(".tabulator-tableholder")?.scrollTop ?? 0;
    this.table?.destroy();
    const { level } = message;
    const height = Math.min(this.model.get("height"), (level === "model" ? 70 : 92) + 27 * Math.max(1, this.rows.length));
    this.table = new TabulatorFull(this.host, {
      data: this.rows, index: "id", columns: this.columns(), height, rowHeight: 27,
      layout: level === "node" ? "fitDataStretch" : "fitData",
      selectableRows: "highlight", editTriggerEvent: "click", headerSortElement: "<span>▾</span>", columnHeaderSortMulti: true,
      columnDefaults: { tooltip: false, headerTooltip: false, resizable: "header" },
    });
    await new Promise((resolve) => this.table.on("tableBuilt", resolve));
    this.table.on("rowSelectionChanged", () => this.selected());
    this.table.on("dataFiltered", (filters, rows) => this.count(rows.length));
    const holder = this.host.querySelector(".tabulator-tableholder");
    holder.scrollTop = scroll;
    if (scroll) {
      await drawn();
      holder.scrollTop = scroll;  // the first time stops short: the heights of rows that are not drawn are unknown
    }
    if (message.level === "node") this.select(message.selected);
    if (first) await this.on_focus({ names: message.selected });  // chosen before there was a page
    this.state(message);
    this.el.dataset.level = message.level;
    this.el.dataset.editable = message.editable;
    this.el.dataset.ready = Math.round(performance.now() - started);
  }

  async on_update(message) {
    this.options = message.options;
    this.settle();
    for (const row of message.rows) Object.assign(this.rows.find((old) => old.id === row.id), row);
    if (message.rows.length > MANY) {
      const chosen = this.names();
      await this.table.replaceData(this.rows);
      this.select(chosen);
    } else if (message.rows.length) {
      await this.table.updateData(message.rows);
      for (const { id } of message.rows) this.table.getRow(id)?.reformat();
    }
    this.state(message);
    if (this.only?.checked) this.table.refreshFilter();
    this.refocus();
    this.el.dataset.updates = Number(this.el.dataset.updates ?? 0) + 1;
  }

  on_revert() {
    this.settle();
    this.refocus();
  }

  on_status({ level, text }) {
    this.say(level, text);
  }

  on_effect({ parts }) {
    this.effect.replaceChildren(...parts.map(({ label, text, sign }) =>
      made("span", { className: "ptqlab-grid-part" }, label ? `${label}: ` : "", made("b", { textContent: text, className: sign && `ptqlab-${sign}` }))));
  }

  on_progress({ text, share }) {
    this.progress.hidden = !text;
    if (share === null) this.progress.removeAttribute("value");
    else this.progress.value = share;
    if (text) this.say("busy", text);
  }

  on_file({ name, text }) {
    const url = URL.createObjectURL(new Blob([text], { type: "application/json" }));
    made("a", { href: url, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(url), 10000);
  }

  async on_focus({ names }) {
    if (this.head.level !== "node") return;
    this.select(names);
    const row = names.length && this.table.getRow(names[0]);
    if (!row) return;
    try {
      await this.table.scrollToRow(row, "center", false);
    } catch {
      this.say("ok", names[0]);  // a filter hides it
      return;
    }
    await drawn();
    const holder = this.host.querySelector(".tabulator-tableholder");
    const [at, view] = [row.getElement(), holder].map((element) => element.getBoundingClientRect());
    // a table that was just built stops short: it knows the height of the rows it has drawn only
    if (at.top < view.top || at.bottom > view.bottom) holder.scrollTop += at.top - view.top - (view.height - at.height) / 2;
  }

  // ---------------------------------------------------------------- drawing

  columns() {
    const { words, columns, titles, level } = this.head;
    const tick = (label, of) => {
      const box = made("input", { type: "checkbox", ariaLabel: label });
      of(box);
      return box;
    };
    const pick = {
      field: "_pick", width: 34, frozen: true, headerSort: false, hozAlign: "center", resizable: false,
      titleFormatter: () => tick(words.all, (box) => { this.all = box; box.addEventListener("click", (event) => { event.stopPropagation(); this.pickAll(box.checked); }); }),
      formatter: (cell) => tick(`${words.one}: ${cell.getData().Node}`, (box) => {
        box.checked = cell.getRow().isSelected();
        box.addEventListener("click", (event) => { event.stopPropagation(); this.pick(cell.getRow(), box.checked, event.shiftKey); });
      }),
    };
    const made_ = columns.map((field) => ({
      field, title: field, width: WIDTHS[field] ?? (this.isFact(field) ? 94 : 84), frozen: field === "Node",
      hozAlign: this.isFigure(field) ? "right" : "left", sorter: this.isFigure(field) ? figures : "string",
      titleFormatter: () => made("span", { title: COSINES.has(field) ? `${field}: ${words.run}` : field }, ...(titles[field] ?? field).split(/(?<=_)/).flatMap((part) => [part, made("wbr")])),
      formatter: (cell) => this.cell(cell), editable: (cell) => field in cell.getData().edit,
      editor: this.isFact(field) || field === "Node" || field === "NodeType" ? false : (cell, shown, done, cancel) => this.editor(cell, shown, cancel),
      headerFilter: level === "model" || this.isFigure(field) ? false : "input", headerFilterPlaceholder: "⌕",
      headerFilterFunc: (wanted, value) => String(value ?? "").toLowerCase().includes(String(wanted).toLowerCase()),
    }));
    return level === "node" ? [pick, ...made_] : made_;
  }

  isFact(field) {
    return this.head.facts.includes(field);
  }

  isFigure(field) {
    return this.isFact(field) && field !== "Granted" && field !== "Reason";
  }

  cell(cell) {
    const { words } = this.head, field = cell.getField(), row = cell.getData(), value = cell.getValue();
    const shown = made("span", { textContent: written(field, value) });
    const element = cell.getElement(), from = row.origin[field];
    element.style.background = behind(field, value, this.largest);
    element.classList.toggle("ptqlab-own", row.own.includes(field));
    element.classList.toggle("ptqlab-inherited", from !== undefined);
    element.classList.toggle("ptqlab-changed", row.changed.includes(field));
    element.classList.toggle("ptqlab-can", field in row.edit);
    element.classList.remove("ptqlab-pending");
    const origin = from && (from === "default" ? words.from_default : filled(words.from, { level: from }));
    element.title = [shown.textContent, origin].filter(Boolean).join(" · ");
    return shown;
  }

  editor(cell, shown, cancel) {
    const { words } = this.head, field = cell.getField(), row = cell.getRow(), own = row.getData().own.includes(field);
    const values = this.options[row.getData().edit[field]];
    const pairs = [...values.map((value) => [value, String(value)]), [null, words.inherit]];
    const [select, chosen] = choice(pairs, own ? cell.getValue() : undefined, `${field}: ${row.getData().Node}`);
    if (!own) select.selectedIndex = pairs.length - 1;
    let left = false;
    const leave = (ask) => {
      if (left) return;
      left = true;
      this.focus = { id: row.getIndex(), field };
      const value = chosen();
      cancel();
      if (ask) this.ask(cell, value);
      else this.refocus();
    };
    select.addEventListener("change", () => leave(true));
    select.addEventListener("blur", () => { this.quiet = true; leave(false); this.quiet = false; });
    select.addEventListener("keydown", (event) => {
      event.stopPropagation();
      if (event.key === "Escape" || event.key === "Enter") leave(false);
    });
    shown(() => {
      select.focus();
      try { select.showPicker(); } catch { /* not every browser opens it for us; it is one more click then */ }
    });
    return select;
  }

  drawBar() {
    const { words, levels, level, title } = this.head;
    const button = (name, does) => made("button", { type: "button", textContent: words[name], onclick: does });
    const [levelSelect, chosen] = choice(levels, level, words.level);
    levelSelect.onchange = () => this.model.send({ kind: "level", level: chosen() });
    this.only = made("input", { type: "checkbox" });
    this.only.onchange = () => (this.only.checked ? this.table.setFilter((row) => row.changed.length > 0) : this.table.clearFilter(false));
    this.undo = button("undo", () => this.model.send({ kind: "undo" }));
    this.redo = button("redo", () => this.model.send({ kind: "redo" }));
    this.apply = button("apply", () => this.model.send({ kind: "apply" }));
    this.stop = button("stop", () => this.model.send({ kind: "stop" }));
    this.apply.className = "ptqlab-grid-apply";
    this.export = button("export", () => this.model.send({ kind: "export", to: this.id }));
    const file = made("input", { type: "file", accept: ".json", hidden: true });
    file.onchange = async () => {
      if (file.files.length) this.model.send({ kind: "load", text: await file.files[0].text() });
      file.value = "";
    };
    this.load = button("load", () => file.click());
    this.counted = made("span", { className: "ptqlab-grid-count" });
    const gap = () => made("span", { className: "ptqlab-grid-gap" });
    const line = (...children) => made("div", { className: "ptqlab-grid-line" }, ...children);
    this.bar.replaceChildren(
      line(made("strong", { textContent: title }), gap(), this.export, this.load, file, this.apply, this.stop),
      line(made("label", {}, `${words.level} `, levelSelect), made("label", {}, this.only, ` ${words.changed}`), this.undo,
        this.redo, gap(), this.counted, ...(level === "node" ? [this.drawSet()] : [])),
    );
  }

  /** A setting for all selected rows, without a click into the table. */
  drawSet() {
    const { words } = this.head;
    const keys = this.head.columns.filter((field) => this.rows.some((row) => field in row.edit));
    const [key, chosenKey] = choice(keys.map((field) => [field, field]), "qtype", words.set);
    let value, chosenValue;
    const place = made("span");
    const values = () => {
      const found = new Set(this.rows.flatMap((row) => this.options[row.edit[chosenKey()]] ?? []));
      [value, chosenValue] = choice([...[...found].map((one) => [one, String(one)]), [null, words.inherit]], undefined, words.to);
      place.replaceChildren(value);
    };
    key.onchange = values;
    values();
    this.set = made("button", { type: "button", textContent: words.do });
    this.set.onclick = () => this.model.send({ kind: "edit", level: this.head.level, names: this.names(), key: chosenKey(), value: chosenValue() });
    return made("span", { className: "ptqlab-grid-set", title: words.for }, `${words.for}: `, key, place, this.set);
  }

  state({ undo, redo, applying, editable }) {
    this.undo.disabled = !undo;
    this.redo.disabled = !redo;
    this.apply.hidden = applying;
    this.stop.hidden = !applying;
    for (const button of [this.apply, this.export, this.load]) button.disabled = !editable;
    this.count();
  }

  count(shown) {
    if (!this.counted || !this.table) return;
    const picked = this.names().length;
    this.counted.textContent = filled(this.head.words.rows, { n: shown ?? this.table.getDataCount("active"), m: picked });
    if (this.set) this.set.disabled = !picked || this.head.level !== "node";
  }

  // ---------------------------------------------------------------- asking

  ask(cell, value) {
    const name = cell.getRow().getIndex(), chosen = this.names();
    const names = chosen.length > 1 && chosen.includes(name) ? chosen : [this.head.level === "model" ? "" : name];
    cell.getElement().classList.add("ptqlab-pending");
    this.pending.push(cell);
    this.model.send({ kind: "edit", level: this.head.level, names, key: cell.getField(), value });
  }

  /** Cells that waited for an answer have it. */
  settle() {
    for (const cell of this.pending.splice(0)) cell.getElement()?.classList.remove("ptqlab-pending");
  }

  names() {
    return this.table && this.head.level === "node" ? this.table.getSelectedData().map((row) => row.id) : [];
  }

  select(names) {
    this.silent = true;
    this.table.deselectRow();
    this.table.selectRow(names.filter((name) => this.table.getRow(name)));
    this.silent = false;
    this.ticks();
    this.count();
  }

  pick(row, on, range) {
    const shown = this.table.getRows("active"), at = shown.findIndex((one) => one.getIndex() === row.getIndex());
    const from = range && this.last !== undefined ? this.last : at;
    const rows = shown.slice(Math.min(from, at), Math.max(from, at) + 1);
    on ? this.table.selectRow(rows) : this.table.deselectRow(rows);
    this.last = at;
  }

  pickAll(on) {
    const rows = this.table.getRows("active");
    on ? this.table.selectRow(rows) : this.table.deselectRow(rows);
  }

  selected() {
    if (this.silent) return;
    this.ticks();
    this.count();
    if (this.head.level === "node") this.model.send({ kind: "select", names: this.names() });
  }

  /** The boxes of the rows on the screen. */
  ticks() {
    for (const row of this.table.getRows("visible")) {
      const box = row.getCell("_pick")?.getElement().querySelector("input");
      if (box) box.checked = row.isSelected();
    }
  }

  // ---------------------------------------------------------------- keyboard

  key(event) {
    if (isUndo(event)) {
      event.preventDefault();
      event.stopPropagation();
      this.model.send({ kind: event.key === "z" ? "undo" : "redo" });
      return;
    }
    const element = event.target.closest(".tabulator-cell");
    if (!element || event.target !== element) return;
    const row = element.closest(".tabulator-row"), field = element.getAttribute("tabulator-field");
    const next = { ArrowDown: row.nextElementSibling, ArrowUp: row.previousElementSibling }[event.key];
    const side = { ArrowRight: "nextElementSibling", ArrowLeft: "previousElementSibling" }[event.key];
    if (event.key === "Enter" || event.key === "F2" || event.key === " ") this.table.getRow(row)?.getCell(field)?.edit();
    else if (next) next.querySelector(`.tabulator-cell[tabulator-field="${CSS.escape(field)}"]`)?.focus();
    else if (side) {
      let beside = element[side];
      while (beside && beside.tabIndex < 0) beside = beside[side];
      beside?.focus();
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }

  /** Back to the cell that was edited, for those who work with the keyboard. */
  refocus() {
    if (!this.focus || this.quiet) return;
    const { id, field } = this.focus;
    this.focus = null;
    const row = this.table.getRow(id);
    if (row) row.getCell(field)?.getElement()?.focus({ preventScroll: true });
  }
}

/** Undo or redo of the grid; in a text that is being typed they are the browser's. */
function isUndo(event) {
  return (event.ctrlKey || event.metaKey) && !event.altKey && ["z", "y", "Z"].includes(event.key) && !event.target.matches("input:not([type=checkbox])");
}

/** Figures in order; what is none comes last. */
function figures(a, b) {
  const x = typeof a === "number" ? a : Infinity, y = typeof b === "number" ? b : Infinity;
  return x === y ? 0 : x - y;
}

export default {
  render({ model, el }) {
    const grid = new Grid(model, el);
    return () => grid.destroy();
  },
};
