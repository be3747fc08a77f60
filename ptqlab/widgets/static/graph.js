// Netron in a sandboxed frame, with our bar and legend above it. It draws what Python sends and tells Python what is
// clicked; frame and page speak through one port.

const STARTS_WITHIN = 20000;

function dark() {
  const { jpThemeLight } = document.body.dataset, { classList } = document.body;
  if (jpThemeLight) return jpThemeLight === "false";
  if (classList.contains("vscode-dark") || classList.contains("vscode-light")) return classList.contains("vscode-dark");
  return matchMedia("(prefers-color-scheme: dark)").matches;
}

function made(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  // keys are for what has the focus; the lab looks for its shortcuts at the focused element first
  if (["select", "input", "button"].includes(tag)) element.dataset.lmSuppressShortcuts = "true";
  element.append(...children);
  return element;
}

/** A select whose choices are [value, words] pairs. */
function choice(name, words, pairs, chosen, change) {
  const select = made("select", { name }, ...pairs.map(([value, text]) => made("option", { value, textContent: text })));
  select.value = chosen;
  select.addEventListener("change", () => change(select.value));
  return made("label", {}, words, select);
}

function drawBar(bar, { words, stages, colors, stage, color, around, hops }, state, ask) {
  const focused = bar.contains(document.activeElement) ? document.activeElement.name : "";
  const number = made("input", { name: "hops", type: "number", min: 0, max: 99, value: hops });
  const cut = made("button", { name: "cut", type: "button", textContent: words.cut, disabled: !state.selected.length });
  cut.addEventListener("click", () => ask({ around: state.selected[0], hops: Number(number.value) }));
  let asked = number.value;
  const reach = () => {
    if (around === null || number.value === asked) return;
    asked = number.value;
    ask({ hops: Number(asked) });
  };
  number.addEventListener("change", reach);
  number.addEventListener("keydown", (event) => event.key === "Enter" && reach());
  const whole = made("button", { name: "whole", type: "button", textContent: words.whole, hidden: around === null });
  whole.addEventListener("click", () => ask({ around: null }));
  state.cut = cut;
  bar.replaceChildren(
    choice("stage", words.stage, stages, stage, (value) => ask({ stage: value })),
    choice("color", words.color, colors, color, (value) => ask({ color: value })),
    made("label", {}, words.hops, number), cut, whole);
  if (focused) bar.querySelector(`[name="${focused}"]`)?.focus();
}

export default {
  async render({ model, el }) {
    const id = token();
    const head = made("div", { className: "ptqlab-head" });
    const bar = made("div", { className: "ptqlab-bar" });
    const legend = made("div");
    const place = made("div");
    const status = made("div", { className: "ptqlab-status" });
    status.setAttribute("role", "status");
    el.classList.add("ptqlab-graph");
    el.append(head, bar, legend, place, status);
    const state = { port: null, selected: [], cut: null, loading: "" };
    const release = ownKeys(el);

    const tell = (text, level = "") => {
      status.textContent = text;
      status.dataset.level = level;
    };
    const ask = (what) => model.send({ kind: "ask", ...what });
    const theme = () => place.firstChild?.contentWindow?.postMessage({ type: "theme", dark: dark() }, "*");
    const watch = new MutationObserver(theme);
    watch.observe(document.body, { attributes: true });

    const select = (names) => {
      state.selected = names;
      if (state.cut) state.cut.disabled = !names.length;
    };
    const hear = (message) => {
      if (message.type === "selected") {
        select(message.names);
        model.send({ kind: "selected", names: message.names });
      } else if (message.type === "ready") {
        if (status.textContent === state.loading) tell("");  // what was refused meanwhile stays
        el.dataset.ready = message.nodes;
        el.dataset.ms = message.ms;
        model.send({ kind: "ready", nodes: message.nodes });
      } else if (message.type === "error") {
        tell(message.message, "error");
        model.send({ kind: "failed", text: message.message });
      }
    };

    const draw = async (content, buffers) => {
      const files = JSON.parse((await assets(model, "netron"))["viewer.json"]);
      const [shown, bytes] = [JSON.parse(await unpack(buffers[0])), buffers[1]];
      hideStatic(content.model_id);
      for (const form of document.querySelectorAll(".ptqlab-static[hidden] iframe")) form.remove();
      delete el.dataset.ready;
      state.port?.close();
      head.textContent = shown.title;
      state.selected = shown.focus;
      drawBar(bar, content, state, ask);
      legend.innerHTML = content.legend;  // made by Python, escaped there
      state.loading = content.words.loading;
      tell(state.loading);
      const frame = made("iframe", { title: `Netron: ${shown.title}` });
      frame.setAttribute("sandbox", "allow-scripts allow-downloads");
      frame.style.height = `${model.get("height")}px`;
      frame.srcdoc = files.html.replaceAll("{nonce}", token());
      const loaded = new Promise((resolve) => frame.addEventListener("load", resolve, { once: true }));
      place.replaceChildren(frame);
      await loaded;
      theme();
      const channel = new MessageChannel();
      state.port = channel.port1;
      channel.port1.onmessage = ({ data }) => hear(data);
      const view = new Uint8Array(bytes.buffer ?? bytes, bytes.byteOffset ?? 0, bytes.byteLength).slice();
      frame.contentWindow.postMessage({ type: "init", modules: files.modules, worker: files.worker, json: files.json,
        model: view, ...shown }, "*", [channel.port2]);
      setTimeout(() => {
        if (status.textContent === state.loading) tell(content.words.slow, "error");
      }, STARTS_WITHIN);
    };

    const receive = (content, buffers) => {
      if (content.kind === "draw" && [id, ""].includes(content.to)) {
        draw(content, buffers).catch((error) => tell(String(error.message ?? error), "error"));
      } else if (content.kind === "paint") {
        legend.innerHTML = content.legend;
        drawBar(bar, content, state, ask);
        state.port?.postMessage({ type: "paint", painting: content.painting });
      } else if (content.kind === "focus") {
        select(content.names);
        state.port?.postMessage({ type: "focus", names: content.names });
      } else if (content.kind === "status") {
        tell(content.text, content.level);
      }
    };
    const resize = () => place.firstChild && (place.firstChild.style.height = `${model.get("height")}px`);
    model.on("msg:custom", receive);
    model.on("change:height", resize);
    model.send({ kind: "draw", to: id });
    return () => {
      model.off("msg:custom", receive);
      model.off("change:height", resize);
      watch.disconnect();
      release();
      state.port?.close();
    };
  },
};
