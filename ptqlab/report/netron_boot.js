// Runs Netron inside a sandboxed frame that has no origin: no age lock, consent, telemetry, storage or request.
//
// What is shown comes either from the page around (a message {type: 'init', ...} with a port, which then carries
// 'paint', 'attach', 'focus' and 'theme' in and 'ready', 'selected' and 'error' out) or from a script element
// #ptqlab-init in this document, for saved notebooks and reports. Names from model files are only ever compared, or
// set as text.
(() => {
    'use strict';
    window.exports = {};  // Netron's browser.js puts itself here
    const NONCE = document.currentScript.nonce;
    const VALUE_WIDTH = 54;  // room for 7 characters, so that another measure needs no new layout
    const NARROW = 620;      // below this width the side bar would hide the graph
    let painting = {nodes: {}, fills: []};
    let port = null;
    let view = null;
    let quiet = false;       // what the page around selects, it knows; an echo would answer a question of before

    // Netron focuses its graph when it is drawn; who types elsewhere on the page goes on typing there
    const takeFocus = HTMLElement.prototype.focus;
    HTMLElement.prototype.focus = function(...options) {
        if (document.hasFocus()) {
            takeFocus.apply(this, options);
        }
    };

    const say = (message) => port?.postMessage(message);
    const fail = (error) => {
        const text = String(error?.message ?? error);
        const note = document.createElement('pre');
        note.setAttribute('role', 'alert');
        note.textContent = `Netron cannot show this graph:\n${text}`;
        note.style.cssText = 'margin:0;padding:1em;white-space:pre-wrap;position:relative;z-index:9';
        document.body.className = 'default';
        document.body.prepend(note);
        say({type: 'error', message: text});
    };

    // the dark rules of Netron's styles follow the system; here they follow the page around
    const rules = [];
    const theme = (dark) => {
        if (!rules.length) {
            for (const sheet of document.styleSheets) {
                rules.push(...Array.from(sheet.cssRules).filter((rule) => /prefers-color-scheme/.test(rule.conditionText)));
            }
        }
        for (const rule of rules) {
            rule.media.mediaText = dark ? 'all' : 'not all';
        }
        document.documentElement.style.colorScheme = dark ? 'dark' : 'light';
    };

    const nameOf = (node) => node?.value?.name ?? '';
    const isNode = (node) => node?.class === 'graph-node' && node.blocks[0]?.add;

    const paint = (graph) => {
        for (const {label} of graph.nodes.values()) {
            const value = label.ptqlab;
            if (!value?.element) {
                continue;
            }
            const [index, text] = painting.nodes[nameOf(label)] ?? [-1, ''];
            const [fill, ink] = painting.fills[index] ?? ['', ''];
            value.text.textContent = text || '\u00a0';
            for (const item of label.element.querySelectorAll(':scope > .node-item-type')) {
                item.querySelector('path').style.fill = fill;
                item.querySelector('text').style.fill = ink;
            }
        }
    };

    const extend = (grapher) => {
        const build = grapher.Graph.prototype.build;
        grapher.Graph.prototype.build = function(...where) {
            for (const {label} of this.nodes.values()) {
                if (isNode(label) && Object.hasOwn(painting.nodes, nameOf(label))) {
                    const item = label.blocks[0].add(null, ['node-item-type', 'ptqlab-value']);
                    item.content = painting.nodes[nameOf(label)][1];
                    item.on('click', () => this.activate(label.value, 'target'));
                    const measure = item.measure;
                    item.measure = () => {
                        measure.call(item);
                        item.width = Math.max(item.width, VALUE_WIDTH);
                    };
                    label.ptqlab = item;
                }
            }
            build.apply(this, where);
            paint(this);
            this.on?.('selectionchange', (graph) => quiet || say({type: 'selected',
                names: Array.from(graph.selection).filter(isNode).map(nameOf).filter((name) => name)}));
        };
    };

    const hostClass = (Browser, init, url) => class extends Browser.Host {
        constructor() {
            super();
            Object.assign(this._environment, {type: 'ptqlab', menu: true});
        }
        async view(made) {
            this._view = made;  // Netron's own asks for consent here, and refuses builds older than 180 days
        }
        async start() {}
        async require(id) {
            return import(`@netron/${id.replace('./', '')}`);
        }
        worker() {
            return new Worker(url(init.worker));
        }
        async asset(file) {
            if (!Object.hasOwn(init.json, file)) {
                throw new Error(`${file} is not here`);
            }
            return init.json[file];
        }
        async message(text, alert, action) {
            if (alert && text) {
                fail(text);
            }
            // "this might take long" asks whether to cancel: it is never answered
            return action === 'Cancel' ? new Promise(() => {}) : 0;
        }
        exception(error) {
            console.error(error);
        }
        async execute() {}
        event() {}
        get() {}
        set() {}
        delete() {}
        openURL() {}
    };

    // what has no meaning here: opening files, reporting issues
    const trim = (menu) => {
        for (const group of menu.items) {
            for (const item of group.items.filter((one) => /Open/.test(one.label))) {
                menu.unregister(item);
            }
            group.items = group.items.filter((one) => !/Open/.test(one.label));
        }
        menu.items = menu.items.filter((group) => !/Help/.test(group.label));
    };

    const find = (name) => {
        for (const {label} of view.target?.nodes.values() ?? []) {
            if (isNode(label) && nameOf(label) === name) {
                return label.value;
            }
        }
        return null;
    };

    const focus = async (names) => {
        const found = () => names.map(find).filter((value) => value);
        let values = found();
        while (names.length && !values.length && view._path.length > 1) {
            await view.popTarget();  // the reader is inside of a function, the node is outside
            values = found();
        }
        const target = view.target;
        if (!target) {
            return;
        }
        quiet = true;
        try {
            const activate = values.length === 1 && window.innerWidth >= NARROW;
            const chosen = activate ? target.activate(values[0], 'sidebar') : target.select(values, 'sidebar');
            target.scrollTo(chosen ?? [], 'instant');
        } finally {
            quiet = false;
        }
    };

    const run = async (init) => {
        const began = performance.now();
        const url = (source) => URL.createObjectURL(new Blob([source], {type: 'text/javascript'}));
        const map = document.createElement('script');
        map.type = 'importmap';
        map.nonce = NONCE;
        map.textContent = JSON.stringify({imports: Object.fromEntries(
            Object.entries(init.modules).map(([name, source]) => [`@netron/${name}`, url(source)]))});
        document.head.append(map);
        const [browser, views, base, grapher] = await Promise.all(
            ['browser', 'view', 'base', 'grapher'].map((name) => import(`@netron/${name}`)));
        painting = init.painting ?? painting;
        extend(grapher);
        const host = new (hostClass(browser, init, url))();
        view = new views.View(host);
        await view.start();
        trim(view._menu);
        const open = (bytes, name) => new window.exports.browser.Context(host, name, name, null,
            new base.BinaryStream(bytes));
        const attach = async (data) => {
            if (data && !await view.attach(open(new TextEncoder().encode(JSON.stringify(data)), 'ptqlab.json'))) {
                throw new Error('the attachment was refused');
            }
        };
        const status = await host._openContext(open(init.model, 'model.onnx'));
        if (status !== '') {
            if (status !== 'context-open-error') {  // that one has told of itself
                fail(`the model was not opened (${status})`);
            }
            return;
        }
        await attach(init.attachment);
        document.title = init.title;
        receive = async ({type, ...data}) => {
            if (type === 'paint') {
                painting = data.painting;
                paint(view.target);
            } else if (type === 'attach') {
                await attach(data.attachment);
            } else if (type === 'focus') {
                await focus(data.names);
            }
        };
        if (init.focus?.length) {
            await focus(init.focus);
        }
        document.body.dataset.ready = view.target.nodes.size;
        say({type: 'ready', nodes: view.target.nodes.size, ms: Math.round(performance.now() - began)});
        waiting.splice(0).forEach((message) => receive(message).catch(fail));
    };

    const waiting = [];
    let receive = async (message) => { waiting.push(message); };

    window.addEventListener('message', (event) => {
        if (event.source !== window.parent || typeof event.data !== 'object') {
            return;
        }
        if (event.data.type === 'theme') {
            theme(event.data.dark);
        } else if (event.data.type === 'init' && !port) {
            [port] = event.ports;
            port.onmessage = ({data}) => receive(data).catch(fail);
            run(event.data).catch(fail);
        }
    });

    window.addEventListener('DOMContentLoaded', async () => {
        const own = document.getElementById('ptqlab-init');
        if (!own) {
            return;
        }
        try {
            const bytes = Uint8Array.from(atob(own.textContent), (c) => c.charCodeAt(0));
            const unpacked = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
            const init = await new Response(unpacked).json();
            init.model = Uint8Array.from(atob(init.model), (c) => c.charCodeAt(0));
            await run(init);
        } catch (error) {
            fail(error);
        }
    });
})();
