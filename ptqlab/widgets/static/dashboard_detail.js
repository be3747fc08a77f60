// The detail pane of a dashboard: html that Python made, every text in it escaped there.

export default {
  render({ model, el }) {
    const body = document.createElement("div");
    const status = document.createElement("div");
    status.className = "ptqlab-status";
    status.setAttribute("role", "status");
    el.classList.add("ptqlab-detail");
    el.append(status, body);
    const hear = (message) => {
      if (message.kind !== "show") return;
      hideStatic(message.model_id);
      body.innerHTML = message.html;
      status.textContent = message.text;
      status.dataset.level = message.level;
      el.dataset.node = message.node ?? "";
      el.dataset.ready = message.level === "busy" ? "" : "1";
    };
    model.on("msg:custom", hear);
    model.send({ kind: "open" });
    return () => model.off("msg:custom", hear);
  },
};
