// Files that Python sends from installed wheels, asked for once per page; modules are imported from blob URLs.

const page = (globalThis.ptqlabPage ??= { sets: new Map(), modules: new Map() });

async function unpack(view) {
  const stream = new Blob([view]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).text();
}

/** {file name: text} of a set of files. */
async function assets(model, set) {
  if (page.sets.has(set)) return page.sets.get(set);
  // every widget asks for itself until one was answered: the kernel of another one may be gone
  const [message, buffers] = await new Promise((resolve) => {
    const hear = (message, buffers) => {
      if (message.kind !== "assets" || message.set !== set) return;
      model.off("msg:custom", hear);
      resolve([message, buffers]);
    };
    model.on("msg:custom", hear);
    model.send({ kind: "assets", set });
  });
  if (message.error) throw new Error(message.error);
  const texts = await Promise.all(buffers.map(unpack));
  page.sets.set(set, Object.fromEntries(message.names.map((name, i) => [name, texts[i]])));
  return page.sets.get(set);
}

/** A module of a set, imported once per page. */
async function moduleOf(model, set, name) {
  const key = `${set}/${name}`;
  const text = (await assets(model, set))[name];
  if (!page.modules.has(key)) {
    const url = URL.createObjectURL(new Blob([text], { type: "text/javascript" }));
    page.modules.set(key, import(url).finally(() => URL.revokeObjectURL(url)));
  }
  return page.modules.get(key);
}

/** A word nobody can guess; randomUUID is not there for labs that are reached by plain http. */
function token() {
  return Array.from(crypto.getRandomValues(new Uint32Array(4)), (part) => part.toString(36)).join("");
}

/** Hide the static form that stands before a widget which is alive. `id` is the widget's model_id. */
function hideStatic(id) {
  for (const form of document.querySelectorAll(`.ptqlab-static[data-ptqlab="${CSS.escape(id)}"]`)) form.hidden = true;
}

/**
 * Keys that are pressed inside of a widget are not shortcuts of the lab: "dd" there deletes no cell of the notebook.
 * Those with Ctrl, Alt or Meta stay the lab's, but for those that `mine(event)` claims. Gives what ends it.
 */
function ownKeys(el, mine = () => false) {
  const before = (event) => {
    if (!el.contains(event.target)) return;
    const plain = !(event.ctrlKey || event.metaKey || event.altKey);
    event.target.toggleAttribute("data-lm-suppress-shortcuts", plain || mine(event));
  };
  window.addEventListener("keydown", before, true); // the lab listens at the document, which comes next
  return () => window.removeEventListener("keydown", before, true);
}
