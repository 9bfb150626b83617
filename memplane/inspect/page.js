"use strict";
// The page: data in, elements out. Every text reaches the page by textContent alone; a view is drawn
// when it is opened, a long list in steps as it is scrolled.
(() => {
  const page = JSON.parse(document.getElementById("data").textContent);
  const views = new Map(page.views.map((view) => [view.id, view]));
  const STEP = 60; // rows of a long list that are drawn at once
  const SVG = "http://www.w3.org/2000/svg";

  // ---- elements ----

  function fill(element, props, kids) {
    for (const [name, value] of Object.entries(props || {})) {
      if (value === null || value === undefined || value === false) continue;
      if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else if (name === "style") for (const [key, one] of Object.entries(value)) element.style.setProperty(key, one);
      else element.setAttribute(name, value === true ? "" : value);
    }
    for (const kid of kids.flat(Infinity)) {
      if (kid === null || kid === undefined || kid === false) continue;
      element.append(kid instanceof Node ? kid : document.createTextNode(String(kid)));
    }
    return element;
  }
  const h = (tag, props, ...kids) => fill(document.createElement(tag), props, kids);
  const svg = (tag, props, ...kids) => fill(document.createElementNS(SVG, tag), props, kids);

  const number = (value) => Number(value).toLocaleString("en-US");
  const percent = (ppm) => `${(ppm / 10000).toFixed(ppm % 10000 ? 1 : 0)} %`;
  const count = (value, one, many) => `${number(value)} ${value === 1 ? one : many || `${one}s`}`;
  const day = (ts) => ts.slice(0, 10);
  const minute = (ts) => ts.slice(11, 16);
  const moment = (ts) => `${day(ts)} ${minute(ts)}`;

  function bytes(value) {
    const units = ["B", "kB", "MB", "GB"];
    let at = 0;
    while (value >= 1000 && at < 3) { value /= 1000; at += 1; }
    return `${at && value < 100 ? value.toFixed(1) : Math.round(value)} ${units[at]}`;
  }

  const now = page.facts && page.facts.now;
  function age(ts) {
    const seconds = (Date.parse(`${now}Z`) - Date.parse(`${ts}Z`)) / 1000;
    if (!(seconds >= 60)) return "just now";
    const steps = [[3600, 60, "min"], [86400, 3600, "h"], [86400 * 60, 86400, "d"], [86400 * 730, 86400 * 30.44, "mo"]];
    for (const [below, unit, word] of steps) if (seconds < below) return `${Math.floor(seconds / unit)} ${word} ago`;
    return `${Math.floor(seconds / (86400 * 365.25))} y ago`;
  }
  const when = (ts) => h("time", { datetime: `${ts}Z`, title: `${ts.replace("T", " ")} UTC` }, age(ts));

  // ---- names ----

  const SECTIONS = {
    identity: "Identity", rules: "Rules", system_map: "Map", knowledge_cards: "Knowledge",
    relevant_decisions: "Decisions", recent_window: "Recent window", retrieved_evidence: "Evidence",
    task_state: "Tasks", tool_state: "Files and tools", expansions: "Expansions",
  };
  const HUES = {
    identity: 1, rules: 2, system_map: 3, knowledge_cards: 4, relevant_decisions: 5,
    recent_window: 6, retrieved_evidence: 7, task_state: 8, tool_state: 9, expansions: 10,
  };
  // A session or a section may be called `constructor`, as every object has one.
  const named = (table, name) => (Object.hasOwn(table, name) ? table[name] : "");
  const sectionName = (name) => named(SECTIONS, name) || (name || "").replaceAll("_", " ") || "None";
  const hue = (name) => `hue-${named(HUES, name) || 11}`;
  const reasonName = (name) => ({ not_relevant: "Does not answer", budget: "No room" })[name]
    || name.charAt(0).toUpperCase() + name.slice(1).replaceAll("_", " ");

  // ---- commands ----

  // Quoted as a POSIX shell takes it, whatever the text is.
  const shell = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? String(text) : `'${String(text).replaceAll("'", `'"'"'`)}'`);
  const line = (...words) => ["memplane", ...words.map(shell)].join(" ");
  const inNs = (ns) => (ns && ns !== "/global" ? ["--ns", ns] : []);

  let said;
  function announce(words) {
    said.textContent = "";
    setTimeout(() => { said.textContent = words; }, 30);
  }

  async function copy(text, button) {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const range = document.createRange();
      range.selectNodeContents(button.querySelector("code"));
      const selection = getSelection();
      selection.removeAllRanges();
      selection.addRange(range);
      document.execCommand("copy");
    }
    button.classList.add("copied");
    announce("Copied");
    setTimeout(() => button.classList.remove("copied"), 1200);
  }

  function command(...words) {
    const text = line(...words);
    return h("button", { type: "button", class: "command", title: "Copy this command", onclick: (event) => copy(text, event.currentTarget) },
      h("code", {}, text), h("span", { class: "copy" }, "copy"));
  }
  const commands = (...rows) => h("div", { class: "commands" }, rows.filter(Boolean).map((words) => command(...words)));

  // What can be done about one event; behind its number, so that lists stay quiet.
  function eventDetails(event, report) {
    const facts = [["id", event.id], ["kind", event.kind], ["recorded", `${event.ts.replace("T", " ")} UTC`], ["key", event.key], ["namespace", event.key ? event.ns : null]];
    return h("div", { class: "more" },
      h("dl", { class: "facts" }, facts.filter(([, value]) => value).map(([name, value]) => [h("dt", {}, name), h("dd", { dir: "auto" }, value)])),
      commands(["show", String(event.seq)], report && ["why", report, String(event.seq)],
        event.key && ["history", event.key, ...inNs(event.ns)], ["forget", "--id", event.id]),
      actions(event));
  }
  function eventNumber(event, report) {
    const details = h("details", { class: "event" }, h("summary", { title: "Details and commands" }, h("span", { class: "unseen" }, "event "), `#${event.seq}`));
    details.addEventListener("toggle", () => {
      if (details.open && details.children.length === 1) details.append(eventDetails(event, report));
    });
    return details;
  }

  // ---- parts ----

  const empty = (words) => h("p", { class: "empty" }, words);
  const note = (words) => (words ? h("p", { class: "note" }, words) : null);
  const text = (words, extra) => h("p", { class: `text ${extra || ""}`, dir: "auto" }, words);
  const dot = (name) => h("span", { class: `dot ${hue(name)}`, "aria-hidden": "true" });
  const badge = (words, kind) => h("span", { class: `badge ${kind || ""}` }, words);
  const meta = (...parts) => h("p", { class: "meta" }, parts.flat().filter((one) => one !== null && one !== undefined && one !== "" && one !== false)
    .map((one) => h("span", {}, one)));

  function heading(title, lead) {
    return h("header", { class: "view-head" }, h("h2", { id: "view-title", tabindex: "-1" }, title), lead ? h("p", { class: "lead" }, lead) : null);
  }

  function bar(value, most, classes, label) {
    return h("span", { class: `bar ${classes || ""}`, role: "img", "aria-label": label },
      h("span", { class: "bar-fill", style: { width: `${most ? Math.min(100, (100 * value) / most) : 0}%` } }));
  }

  // A table that a narrow screen shows as a list of rows: each cell names its column.
  function table(columns, rows, caption) {
    return h("table", { class: "rows" }, h("caption", { class: "unseen" }, caption),
      h("thead", {}, h("tr", {}, columns.map((one) => h("th", { scope: "col", class: one.number ? "number" : "" }, one.name || h("span", { class: "unseen" }, "As a bar"))))),
      h("tbody", {}, rows.map((row) => h("tr", {}, row.map((cell, at) => h(at ? "td" : "th",
        { scope: at ? null : "row", class: columns[at].number ? "number" : "", "data-name": columns[at].name, dir: "auto" },
        h("span", { class: "cell" }, cell)))))));
  }

  // Draws rows in steps: the next step when the end comes near, or by its button.
  function lazy(list, rows, draw, more) {
    let drawn = 0;
    const button = h("button", { type: "button", class: "quiet", onclick: () => step() }, "");
    const foot = h("div", { class: "list-foot" }, button);
    const watch = new IntersectionObserver((seen) => { if (seen.some((one) => one.isIntersecting)) step(); }, { rootMargin: "400px" });
    function step() {
      const end = Math.min(rows.length, drawn + STEP);
      const some = document.createDocumentFragment();
      for (; drawn < end; drawn += 1) some.append(draw(rows[drawn], rows[drawn - 1]));
      list.append(some);
      button.textContent = `Show more (${number(rows.length - drawn)} left)`;
      foot.hidden = drawn >= rows.length;
      watch.unobserve(foot);
      if (!foot.hidden) watch.observe(foot);
    }
    step();
    return [list, foot, more || null];
  }

  // The first few rows of a list that others stand below; the rest when they are asked for.
  function some(list, rows, draw) {
    const few = 6;
    list.append(...rows.slice(0, few).map(draw));
    if (rows.length <= few) return list;
    const rest = h("button", { type: "button", class: "quiet", onclick: () => {
      list.append(...rows.slice(few).map(draw));
      rest.remove();
    } }, `Show all ${number(rows.length)}`);
    return [list, rest];
  }

  function searchBox(label, placeholder, change, value) {
    let timer;
    const input = h("input", { type: "search", id: "search", placeholder, autocomplete: "off", spellcheck: "false", value: value || null,
      oninput: () => { clearTimeout(timer); timer = setTimeout(() => change(input.value), 90); } });
    return h("div", { class: "search", role: "search" }, h("label", { class: "unseen", for: "search" }, label), input);
  }

  function select(label, options, change) {
    return h("label", { class: "select" }, h("span", { class: "unseen" }, label),
      h("select", { onchange: (event) => change(event.target.value) }, options.map(([value, words]) => h("option", { value }, words))));
  }

  // ---- the block ----

  function tokenBar(sections, total) {
    const used = sections.filter((one) => one.used > 0);
    const sum = used.reduce((all, one) => all + one.used, 0) || 1;
    return h("figure", { class: "tokens" },
      h("div", { class: "stack", role: "img", "aria-label": `Tokens by section: ${used.map((one) => `${sectionName(one.name)} ${one.used}`).join(", ")}` },
        used.map((one) => h("span", { class: `part ${hue(one.name)}`, title: `${sectionName(one.name)}: ${number(one.used)} tokens`, style: { "flex-grow": String(one.used / sum) } }))),
      h("ul", { class: "legend" }, used.map((one) => h("li", {}, h("a", { href: `#/block/${one.name}` }, dot(one.name), sectionName(one.name)),
        h("span", { class: "figure" }, number(one.used)), h("span", { class: "share" }, percent((1e6 * one.used) / (total || sum)))))));
  }

  function scoreParts(entry) {
    const parts = Object.entries(entry.parts);
    if (!entry.score && !parts.length) return null;
    const told = parts.map(([name, value]) => `${name.replaceAll("_", " ")} ${number(value)}`).join(" + ");
    return h("span", { class: "score", title: told }, `score ${number(entry.score)}`, told ? h("span", { class: "score-parts" }, ` = ${told}`) : null);
  }

  function entryRow(entry, view) {
    const first = entry.events[0];
    const says = entry.withheld ? h("p", { class: "text withheld" }, entry.withheld) : text(entry.text, "block-text");
    return h("li", { class: `entry ${hue(entry.section)}` }, says,
      meta(first && first.who, first && first.source, first && when(first.ts), count(entry.tokens, "token"), scoreParts(entry),
        !first && h("code", {}, entry.source.replace(/@[0-9a-f]{12,}$/, "")),
        entry.whole || !first ? null : "in part",
        entry.events.map((event) => eventNumber(event, view.report)), entry.more ? `and ${count(entry.more, "event")} more` : null));
  }

  function drawBlock(view) {
    const groups = [];
    for (const entry of view.entries) {
      const last = groups[groups.length - 1];
      if (last && last.section === entry.section) last.entries.push(entry);
      else groups.push({ section: entry.section, entries: [entry] });
    }
    const facts = new Map(view.sections.map((one) => [one.name, one]));
    const asked = view.query ? ["“", h("q", { class: "plain", dir: "auto" }, view.query), "”"] : "nothing was asked: what the session is about";
    const seen = new Set();
    return [
      heading("The block", [`What channel ${page.facts.channel} ${view.report ? "was" : "is"} given: `, asked]),
      note(view.note),
      h("div", { class: "figures" },
        figure(number(view.tokens), `of ${number(view.budget)} tokens`), figure(number(view.entries.length), "entries"),
        figure(view.intent, "intent"), figure(number(view.candidates.scored), "candidates scored")),
      tokenBar(view.sections, view.tokens),
      commands(view.report ? ["replay", view.report] : ["pack", ...(view.query ? [view.query] : []), "--channel", page.facts.channel, ...(view.session ? ["--session", view.session] : [])],
        view.report && ["why", view.report, "entry:1"]),
      groups.map((group) => {
        const fact = facts.get(group.section);
        const again = seen.has(group.section);
        seen.add(group.section);
        const tokens = group.entries.reduce((all, one) => all + one.tokens, 0);
        return h("section", { class: "group", id: again ? null : `block/${group.section}` },
          h("h3", {}, dot(group.section), sectionName(group.section), h("span", { class: "sum" }, count(tokens, "token"),
            fact && !again ? ` · room ${number(fact.room)}` : "")),
          fact && !again ? bar(fact.used, Math.max(fact.room, fact.used), hue(group.section), `${fact.used} tokens used of a room of ${fact.room}`) : null,
          h("ol", { class: "entries" }, group.entries.map((entry) => entryRow(entry, view))));
      }),
    ];
  }
  const figure = (value, words) => h("div", { class: "fact" }, h("b", {}, value), h("span", {}, words));

  // ---- left out ----

  function drawLeftOut(view) {
    const most = Math.max(1, ...view.counts.map((one) => one.count));
    let chosen = "";
    const list = h("ol", { class: "entries plain" });
    const place = h("div", {});
    function draw() {
      const rows = view.rows.filter((row) => !chosen || row.reason === chosen);
      list.textContent = "";
      place.replaceChildren(...(rows.length ? lazy(list, rows, leftOutRow(view)).filter(Boolean) : [empty("None of them may be named here.")]));
    }
    draw();
    return [
      heading("Left out", `${count(view.count, "candidate")} ${view.count === 1 ? "is" : "are"} not in the block, each for a reason.`),
      h("div", { class: "reasons" }, table([{ name: "Reason" }, { name: "Events", number: true }, { name: "" }, { name: "Which means" }],
        view.counts.map((one) => [reasonName(one.reason), number(one.count), bar(one.count, most, "", `${one.count}`), one.words]), "Reasons and how many were left out by each")),
      h("h3", { class: "list-title" }, "The best of them", view.rows.length ? select("Reason", [["", "All reasons"],
        ...[...new Set(view.rows.map((row) => row.reason))].map((name) => [name, reasonName(name)])], (value) => { chosen = value; draw(); }) : null),
      place,
    ];
  }

  const leftOutRow = (view) => (row) => h("li", { class: `entry ${row.section ? hue(row.section) : "hue-11"}` },
    row.event ? text(row.event.text || "(no text)") : text(row.name, "mono"),
    meta(badge(reasonName(row.reason), row.reason === "budget" ? "warm" : ""), row.section && sectionName(row.section),
      row.event && row.event.who, row.event && row.event.source, row.event && when(row.event.ts), row.cost ? count(row.cost, "token") : null,
      row.short_by ? `${count(row.short_by, "token")} short` : null, row.score ? `score ${number(row.score)}` : null,
      row.event ? eventNumber(row.event, view.report) : null));

  // ---- prefix ----

  function strip(pack, shared, widest, label, y) {
    const width = 1000;
    const parts = pack.entries.map(([section, area, tokens, begin], at) => {
      const size = (tokens * width) / widest;
      const x = (begin * width) / widest;
      const rect = svg("rect", { x: x.toFixed(2), y, width: Math.max(0.6, size - Math.min(1, size * 0.12)).toFixed(2), height: 30, rx: 1.5, class: `${hue(section)} ${at < shared ? "same" : "other"}` },
        svg("title", {}, `${sectionName(section)}, area ${area}: ${tokens} tokens, ${at < shared ? "shared" : "not shared"}`));
      return rect;
    });
    return svg("g", {}, svg("text", { x: 0, y: y - 8, class: "axis" }, label), parts);
  }

  function drawPrefix(view) {
    const before = view.before;
    const shared = view.shared_entries || 0;
    const widest = Math.max(1, view.now.tokens, before ? before.tokens : 0);
    const edge = (view.common_tokens * 1000) / widest;
    const rows = view.packs ? view.packs.shares : [];
    const cost = Object.entries(view.cost);
    const difference = view.difference;
    return [
      heading("Prefix", before ? `${percent(view.share_ppm)} of this pack repeats the one before it, so a prompt cache can read it.` : "No pack of this session was saved before: there is nothing to repeat."),
      note(view.note),
      before ? h("figure", { class: "plot" },
        svg("svg", { viewBox: "0 0 1000 132", role: "img", "aria-label": `Two packs by their entries. Shared: ${view.common_tokens} of ${view.now.tokens} tokens.`, preserveAspectRatio: "none", class: "strips" },
          strip(before, shared, widest, "", 14), strip(view.now, shared, widest, "", 70),
          svg("line", { x1: edge, x2: edge, y1: 4, y2: 112, class: "edge" })),
        h("figcaption", {}, h("span", {}, `Above: ${moment(before.made)}, ${count(before.tokens, "token")}. Below: ${moment(view.now.made)}, ${count(view.now.tokens, "token")}. `),
          h("span", {}, `Solid: the ${number(view.common_tokens)} tokens that both begin with.`))) : null,
      difference ? h("section", { class: "group" },
        h("h3", {}, "Where they part", h("span", { class: "sum" }, `line ${number(difference.line)}${difference.section ? ` · ${sectionName(difference.section)}` : ""}`)),
        meta(badge(difference.cause, "warm"), difference.cause_words),
        h("div", { class: "pair" }, [["old", "Before"], ["new", "Now"]].map(([side, name]) => h("div", { class: `side ${side}` }, h("h4", {}, name),
          text(difference[side] || "(nothing: the block ends here)", "block-text"),
          (view.lists[side] || []).length ? h("ol", { class: "strip-list" }, view.lists[side].map((one) => h("li", {}, dot(one.section),
            h("span", { dir: "auto" }, one.text || sectionName(one.section)), h("span", { class: "figure" }, number(one.tokens))))) : null)))) : null,
      cost.length ? h("section", { class: "group" }, h("h3", {}, "What it costs"),
        table([{ name: "The next pack comes" }, { name: "Fresh", number: true }, { name: "Written to the cache", number: true }, { name: "Read from it", number: true }, { name: "Of sending it anew", number: true }],
          cost.map(([reuse, one]) => [reuse === "prompt" ? "with the next prompt" : "with the next model call", number(one.fresh), number(one.written), number(one.read),
            percent((one.price * 1000) / Math.max(1, view.now.tokens))]), "Tokens by what they cost"),
        view.below_minimum ? note("This block is shorter than the shortest prefix that the cache keeps.") : null) : null,
      rows.length > 1 ? h("section", { class: "group" }, h("h3", {}, "The packs of this session"), columns(rows.map((one) => ({
        value: one.share_ppm / 10000, label: `${moment(one.made)}: ${one.first ? "the first" : percent(one.share_ppm)}${one.cause ? `, because of ${one.cause}` : ""}`, broken: Boolean(one.cause) })), "Share that each pack repeats of the one before, in percent")) : null,
      commands(["stats", "--cache", ...(view.packs ? ["--session", view.packs.session] : [])], ["replay", view.now.report]),
    ];
  }

  // Columns of percent, oldest first.
  function columns(values, label) {
    const wide = 1000 / Math.max(12, values.length);
    return h("figure", { class: "plot" }, svg("svg", { viewBox: "0 0 1000 150", role: "img", "aria-label": label, preserveAspectRatio: "none", class: "columns" },
      [0, 50, 100].map((at) => svg("line", { x1: 0, x2: 1000, y1: 140 - at * 1.3, y2: 140 - at * 1.3, class: "grid" })),
      values.map((one, at) => svg("rect", { x: (at * wide + wide * 0.15).toFixed(2), width: (wide * 0.7).toFixed(2), y: (140 - Math.max(1, one.value * 1.3)).toFixed(2), height: Math.max(1, one.value * 1.3).toFixed(2), class: one.broken ? "broken" : "" },
        svg("title", {}, one.label)))), h("figcaption", {}, `${label}; lines at 0, 50 and 100 %.`));
  }

  // ---- timeline ----

  let timelineRows = null;
  function rowsOf(view) {
    if (timelineRows) return timelineRows;
    const name = (at) => (at < 0 ? "" : view.names[at]);
    timelineRows = view.rows.map((row) => ({
      seq: row[0], ts: row[1], kind: name(row[2]), who: name(row[3]), session: name(row[4]), key: name(row[5]), ns: name(row[6]), tokens: row[7], id: row[8], text: row[9],
    })).sort((a, b) => (a.ts < b.ts ? 1 : a.ts > b.ts ? -1 : b.seq - a.seq));
    return timelineRows;
  }
  const sessionName = (view, id) => named(view.titles, id) || id;
  const asked = { words: "", kind: "", session: "" };

  function matching(view) {
    const words = asked.words.toLowerCase().split(/\s+/).filter(Boolean);
    return rowsOf(view).filter((row) => {
      if ((asked.kind && row.kind !== asked.kind) || (asked.session && row.session !== asked.session)) return false;
      if (!words.length) return true;
      row.folded = row.folded || `${row.text} ${row.key} ${row.who} ${row.kind}`.toLowerCase();
      return words.every((word) => row.folded.includes(word));
    });
  }

  function eventRow(row, extra) {
    const long = row.text.length > 260 || row.text.split("\n").length > 4;
    const says = text(row.text || "(no text)", `${long ? "clamped" : ""} ${row.text ? "" : "quiet-text"}`);
    const open = long ? h("button", { type: "button", class: "quiet small", "aria-expanded": "false", onclick: (event) => {
      const closed = says.classList.toggle("clamped");
      event.currentTarget.textContent = closed ? "Show all" : "Show less";
      event.currentTarget.setAttribute("aria-expanded", String(!closed));
    } }, "Show all") : null;
    return h("li", { class: `event-row kind-${/^(message|tool_call|tool_result|decision|rule|fact|task)$/.test(row.kind) ? row.kind : "other"}` },
      h("div", { class: "at" }, h("time", { datetime: `${row.ts}Z` }, minute(row.ts)), h("span", { class: "kind" }, row.kind.replace("custom:", ""))),
      h("div", { class: "said" }, says, open, meta(row.who, row.key ? h("code", {}, row.key) : null, row.tokens ? count(row.tokens, "token") : null, extra, eventNumber(row))));
  }

  function drawTimeline(view) {
    const place = h("div", { class: "timeline" });
    const found = h("p", { class: "found", role: "status" });
    function draw() {
      const rows = matching(view);
      const of = rowsOf(view).length;
      found.textContent = rows.length === of ? count(of, "event") : `${number(rows.length)} of ${count(of, "event")}`;
      const list = h("ol", { class: "days" });
      place.replaceChildren(...(rows.length ? lazy(list, rows, (row, before) => {
        const some = document.createDocumentFragment();
        const newDay = !before || day(before.ts) !== day(row.ts);
        if (newDay || before.session !== row.session) {
          some.append(h("li", { class: newDay ? "day" : "session-line" }, newDay ? h("h3", {}, day(row.ts)) : null,
            row.session ? h("p", { class: "session-name", dir: "auto" }, sessionName(view, row.session)) : null));
        }
        some.append(eventRow(row));
        return some;
      }).filter(Boolean) : [empty("No event has all of these words.")]));
    }
    const kinds = [...new Set(rowsOf(view).map((row) => row.kind))].sort();
    const sessions = [...new Set(rowsOf(view).map((row) => row.session).filter(Boolean))].slice(0, 200);
    draw();
    return [
      heading("Timeline", "What was recorded, the newest first."),
      h("div", { class: "tools" }, searchBox("Search the events by words", "Search by words", (value) => { asked.words = value; draw(); }, asked.words),
        select("Kind", [["", "All kinds"], ...kinds.map((kind) => [kind, kind])], (value) => { asked.kind = value; draw(); }),
        sessions.length > 1 ? select("Session", [["", "All sessions"], ...sessions.map((id) => [id, sessionName(view, id)])], (value) => { asked.session = value; draw(); }) : null, found),
      view.more || view.begin ? note(`${view.more ? `${count(view.more, "older event")} of this choice left off. ` : ""}${view.begin ? `Nothing up to event #${view.begin} was looked at.` : ""}`) : null,
      place,
    ];
  }

  // ---- decisions and values ----

  function chainRow(one) {
    const newest = one.versions[one.versions.length - 1];
    const holds = one.versions.filter((version) => version.reason === null).pop();
    const shown = holds || newest;
    const details = h("details", { class: "chain", "data-key": one.key },
      h("summary", {}, h("span", { class: "key" }, h("code", {}, one.key), one.ns !== "/global" ? h("span", { class: "ns" }, one.ns) : null),
        h("span", { class: `value ${holds ? "" : "gone"}`, dir: "auto" }, shown.text),
        h("span", { class: "marks" }, one.contradicts.length ? badge("contradicts", "warm") : null, holds ? null : badge(shown.reason || "gone"),
          badge(count(one.versions.length + one.more, "value"), one.versions.length > 1 ? "strong" : ""), when(shown.ts))));
    details.addEventListener("toggle", () => {
      if (!details.open || details.children.length > 1) return;
      details.append(h("div", { class: "chain-body" },
        one.contradicts.length ? note(`Another value of ${one.key} is in force in ${one.contradicts.join(", ")}.`) : null,
        h("ol", { class: "links" }, one.versions.slice().reverse().map((version) => {
          const by = one.versions.find((other) => other.seq === version.by);
          return h("li", { class: version.reason === null ? "now" : "" }, text(version.text),
            meta(version.reason === null ? badge("in force", "good") : badge(version.reason),
              version.by ? `by #${version.by}${by ? `${by.who ? ` of ${by.who}` : ""}, ${moment(by.ts)}` : ""}` : null,
              version.who, version.source, moment(version.ts), eventNumber(version)));
        })),
        one.more ? note(`${count(one.more, "older value")} left off.`) : null,
        commands(["history", one.key, ...inNs(one.ns)], ["forget", one.key, ...inNs(one.ns)])));
    });
    return h("li", {}, details);
  }

  function drawValues(view) {
    const place = h("div", {});
    let words = "";
    let changed = false;
    function draw() {
      const rows = view.chains.filter((one) => (!changed || one.versions.length > 1 || one.contradicts.length)
        && words.toLowerCase().split(/\s+/).every((word) => `${one.key} ${one.versions.map((version) => version.text).join(" ")}`.toLowerCase().includes(word)));
      place.replaceChildren(...(rows.length ? lazy(h("ul", { class: "chains" }), rows, chainRow).filter(Boolean) : [empty("No key has a value here.")]));
    }
    draw();
    return [
      heading("Decisions and values", `${count(view.decisions.length, "decision")} in force, ${count(view.chains.length, "key")}${view.contradictions ? `, ${count(view.contradictions, "contradiction")}` : ""}.`),
      view.decisions.length ? h("section", { class: "group" }, h("h3", {}, dot("relevant_decisions"), "Decisions in force"), some(h("ol", { class: "entries" }),
        view.decisions.slice().reverse(), (event) => h("li", { class: "entry hue-5" }, text(event.text),
          meta(event.who, event.source, when(event.ts), event.key ? h("code", {}, event.key) : null, eventNumber(event))))) : null,
      h("section", { class: "group" }, h("h3", {}, "Keys and what they held"),
        h("div", { class: "tools" }, searchBox("Search keys and values", "Search keys and values", (value) => { words = value; draw(); }),
          h("label", { class: "check" }, h("input", { type: "checkbox", onchange: (event) => { changed = event.target.checked; draw(); } }), "Only what changed")),
        place, view.more ? note(`${count(view.more, "key")} that changed earlier left off: memplane keys lists all.`) : null),
    ];
  }

  // ---- sessions, tasks, files ----

  const titled = (name, words) => (words ? [h("dt", {}, name), h("dd", { dir: "auto" }, words)] : null);

  function sessionCard(one) {
    const span = day(one.first) === day(one.last) ? `${moment(one.first)} to ${minute(one.last)}` : `${moment(one.first)} to ${moment(one.last)}`;
    return h("li", { class: "card" },
      h("h3", { dir: "auto" }, one.title || one.id),
      meta(badge(one.status, one.status === "ended" ? "" : "good"), span, one.agent, one.branch ? h("code", {}, one.branch) : null),
      h("dl", { class: "told" }, titled("Outcome", one.outcome), titled("Left", one.left)),
      meta(count(one.prompts, "prompt"), count(one.events, "event"), one.calls ? count(one.calls, "tool call") : null, one.errors ? count(one.errors, "error") : null,
        one.decisions ? count(one.decisions, "decision") : null, count(one.tokens, "token")),
      h("details", { class: "fold" }, h("summary", {}, one.digest ? "Digest, files, commands" : "Commands"), one.digest ? text(one.digest, "block-text") : null,
        one.files.length ? h("ul", { class: "paths" }, one.files.map((path) => h("li", {}, h("code", {}, path)))) : null,
        commands(["session", "show", one.id], ["inspect", "--session", one.id, "--channel", page.facts.channel], ["forget", "--session", one.id])));
  }

  const drawSessions = (view) => [heading("Sessions", "What each was about, what it came to, what it left."),
    view.rows.length ? lazy(h("ol", { class: "cards" }), view.rows, sessionCard) : empty("No session may be shown here.")];

  const MARKS = { done: "✓", doing: "→", todo: "○", failed: "✕" };
  function taskCard(one) {
    const left = one.plan.filter((step) => step.state !== "done").length;
    return h("li", { class: "card" }, h("h3", { dir: "auto" }, one.title || one.id),
      meta(badge(one.status, one.status === "open" ? "good" : one.status === "blocked" ? "warm" : ""), one.active ? badge("active", "strong") : null, h("code", {}, one.id),
        one.updated ? when(one.updated) : null, one.plan.length ? `${number(left)} of ${count(one.plan.length, "step")} left` : null),
      one.goal && one.goal !== one.title ? text(one.goal) : null,
      one.plan.length ? h("ol", { class: "plan" }, one.plan.map((step) => h("li", { class: `step-${step.state}` }, h("span", { class: "mark", "aria-hidden": "true" }, MARKS[step.state] || "○"),
        h("span", { class: "unseen" }, `${step.state}: `), h("span", { dir: "auto" }, step.text)))) : null,
      h("dl", { class: "told" }, titled("Reason", one.reason), titled("Decided", one.decisions.join("\n")), titled("Failed", one.failures.join("\n")), titled("Files", one.files.join("\n"))),
      commands(["task", "show", one.id]));
  }
  const drawTasks = (view) => [heading("Tasks", view.rows.length ? "Open ones first: the plan, and what is left of it." : null),
    view.rows.length ? lazy(h("ol", { class: "cards" }), view.rows, taskCard) : empty("No task was opened, or none may be shown here.")];

  const drawFiles = (view) => [heading("Files", "What sessions touched, the likeliest to be needed first."),
    view.rows.length ? table([{ name: "Path" }, { name: "Touched", number: true }, { name: "Last" }, { name: "Listed for" }, { name: "Event" }],
      view.rows.map((one) => [[h("code", { class: "path" }, one.path), one.branch ? h("span", { class: "under" }, one.branch) : null], number(one.touches), when(one.event.ts), one.why.join(", "), eventNumber(one.event)]), "Files") : empty("No file was touched."),
    commands(["files"])];

  // ---- redaction and purge, health ----

  function counted(rows, first, caption, none) {
    const most = Math.max(1, ...rows.map(([, value]) => value));
    return rows.length ? table([{ name: first }, { name: "Count", number: true }, { name: "" }], rows.map(([name, value]) => [name, number(value), bar(value, most, "", String(value))]), caption) : empty(none);
  }

  const WITHHELD = { hidden: "not for this channel", forgotten: "forgotten or evicted", identifier: "its name looks like a secret" };
  const drawPrivacy = (view) => [
    heading("Redaction and purge", "Counts alone: what was taken out is nowhere on this page."),
    h("section", { class: "group" }, h("h3", {}, "Masked when it was recorded"), counted(view.masked, "Rule", "Secrets masked by rule", "No rule masked anything in the events of this page."), commands(["audit"])),
    h("section", { class: "group" }, h("h3", {}, "Kept off this page"), counted(view.withheld.map(([name, value]) => [named(WITHHELD, name) || name, value]), "Reason", "Events that are not on this page", "Nothing.")),
    h("section", { class: "group" }, h("h3", {}, "Purged"), h("div", { class: "figures" }, figure(number(view.purged), "events erased for good"), figure(number(view.purges), "purges")), commands(["purge", "--archived", "forgotten", "--dry-run"])),
    view.begin ? note(`Counted behind event #${view.begin}.`) : null,
  ];

  function growth(points) {
    if (points.length < 2) return null;
    const times = points.map(([ts]) => Date.parse(`${ts}Z`));
    const [from, to] = [Math.min(...times), Math.max(...times)];
    const most = Math.max(...points.map(([, seq]) => seq));
    const at = points.map(([, seq], place) => `${(to > from ? ((times[place] - from) * 1000) / (to - from) : (place * 1000) / (points.length - 1)).toFixed(1)},${(130 - (seq * 120) / most).toFixed(1)}`);
    return h("figure", { class: "plot" }, svg("svg", { viewBox: "0 0 1000 140", role: "img", "aria-label": `The log grew to ${most} lines from ${points[0][0]} to ${points[points.length - 1][0]}`, preserveAspectRatio: "none", class: "growth" },
      [10, 70, 130].map((y) => svg("line", { x1: 0, x2: 1000, y1: y, y2: y, class: "grid" })),
      svg("polygon", { points: `0,130 ${at.join(" ")} 1000,130`, class: "area" }), svg("polyline", { points: at.join(" "), class: "curve" })),
      h("figcaption", {}, h("span", {}, moment(points[0][0])), h("span", {}, `${number(most)} lines`), h("span", {}, moment(points[points.length - 1][0]))));
  }

  function drawHealth(view) {
    const most = Math.max(1, ...view.sizes.map(([, size]) => size));
    const files = [...new Set(view.policies.map((one) => one.file))];
    return [
      heading("Health", view.gaps.length ? "Parts of the log do not verify." : "The log verified as far as it was read."),
      h("div", { class: "figures" }, figure(number(view.seq), "lines in the log"), figure(number(view.segments), "segments"), figure(bytes(view.sizes.reduce((all, [, size]) => all + size, 0)), "on disk"), figure(number(view.waiting), "waiting in the spool")),
      view.gaps.length ? h("section", { class: "group" }, h("h3", {}, "Gaps"), table([{ name: "Segment" }, { name: "First", number: true }, { name: "Last", number: true }], view.gaps.map((one) => [one.segment, number(one.first), number(one.last)]), "Gaps"), commands(["verify"], ["repair"])) : null,
      h("section", { class: "group" }, h("h3", {}, "Growth"), growth(view.growth)),
      h("section", { class: "group" }, h("h3", {}, "On disk"), table([{ name: "Folder" }, { name: "Size", number: true }, { name: "" }], view.sizes.map(([name, size]) => [h("code", {}, `${name}/`), bytes(size), bar(size, most, "", bytes(size))]), "Bytes by folder")),
      h("section", { class: "group" }, h("h3", {}, "Kinds"), counted(view.kinds, "Kind", "Events of this page by kind", "No events.")),
      view.checks.length ? h("section", { class: "group" }, h("h3", {}, "Checks"), table([{ name: "Check" }, { name: "State" }, { name: "Found" }], view.checks.map((one) => [one.name, badge(one.status, one.status === "ok" ? "good" : "warm"), [one.found, one.remedy ? h("span", { class: "under" }, one.remedy) : null]]), "Checks"), commands(["doctor"])) : null,
      h("section", { class: "group" }, h("h3", {}, "Policy in force"), files.map((file) => {
        const rows = view.policies.filter((one) => one.file === file);
        const own = rows.filter((one) => one.own).length;
        const fold = h("details", { class: "fold" }, h("summary", {}, h("code", {}, file), h("span", { class: "sum" }, `${count(rows.length, "value")}, ${number(own)} from the file or environment`)));
        fold.addEventListener("toggle", () => {
          if (fold.open && fold.children.length === 1) fold.append(table([{ name: "Key" }, { name: "Value" }, { name: "Origin" }], rows.map((one) => [h("code", { class: "path" }, one.key), h("code", { class: "path" }, one.value), one.own ? badge(one.origin, "strong") : one.origin]), `Values of ${file}`));
        });
        return fold;
      }), commands(["policy", "show"])),
    ];
  }

  // ---- reports as pages ----

  function reportCell(value, column) {
    if (value === null || value === undefined) return "–";
    if (column.bar) return [h("span", {}, typeof value === "number" ? number(value) : value), bar(Number(value), column.most, "", String(value))];
    return typeof value === "number" ? number(value) : value;
  }
  function reportPart(one) {
    const columnsOf = (one.columns || []).map((column, at) => ({ ...column, most: column.bar ? Math.max(1e-9, ...one.rows.map((row) => Number(row[at]) || 0)) : 0 }));
    return h("section", { class: "group" }, one.title ? h("h3", {}, one.title) : null, note(one.note),
      one.figures ? h("div", { class: "figures" }, one.figures.map(([value, words]) => figure(typeof value === "number" ? number(value) : value, words))) : null,
      one.lines ? lines(one.lines) : null,
      one.rows && !one.rows.length ? empty("Nothing.") : null,
      one.rows && one.rows.length ? lazy(h("div", { class: "tables" }), slices(one.rows), (rows) => table(columnsOf, rows.map((row) => row.map((cell, at) => reportCell(cell, columnsOf[at]))), one.title || "Figures")) : null);
  }
  function slices(rows) {
    const found = [];
    for (let at = 0; at < rows.length; at += 200) found.push(rows.slice(at, at + 200));
    return found;
  }
  // Curves over common points: `labels` along the axis, each series with a name and values.
  function lines(plot) {
    const most = Math.max(1e-9, ...plot.series.flatMap((one) => one.values.map(Number)));
    const x = (at) => (plot.labels.length > 1 ? (at * 1000) / (plot.labels.length - 1) : 500);
    return h("figure", { class: "plot" }, svg("svg", { viewBox: "0 0 1000 220", role: "img", "aria-label": plot.label, preserveAspectRatio: "none", class: "lines" },
      [0, 0.5, 1].map((at) => svg("line", { x1: 0, x2: 1000, y1: 210 - at * 200, y2: 210 - at * 200, class: "grid" })),
      plot.series.map((one, at) => svg("polyline", { points: one.values.map((value, place) => `${x(place).toFixed(1)},${(210 - (value * 200) / most).toFixed(1)}`).join(" "), class: `curve hue-${(at % 10) + 1}` }))),
      h("figcaption", {}, plot.labels.map((label) => h("span", {}, label))),
      h("ul", { class: "legend" }, plot.series.map((one, at) => h("li", {}, h("span", { class: `dot hue-${(at % 10) + 1}`, "aria-hidden": "true" }), one.name, h("span", { class: "figure" }, one.values.map((value) => value).join(" · "))))));
  }
  const drawReport = (view) => [heading(view.label, view.lead), view.parts.map(reportPart), (view.commands || []).length ? commands(...view.commands) : null];

  // ---- live ----

  const root = location.pathname.replace(/\/*$/, "");
  let dialog;

  function actions(event) {
    if (!page.live || !page.live.actions) return null;
    return h("div", { class: "actions" }, [["forget", "Forget"], ["pin", "Pin"]].map(([action, words]) =>
      h("button", { type: "button", class: "act", onclick: () => ask(action, event) }, words)));
  }
  async function post(body) {
    const answer = await fetch(`${root}/act`, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
    return { ok: answer.ok, ...(await answer.json()) };
  }
  async function ask(action, event) {
    const first = await post({ action, id: event.id });
    if (!first.confirm) { tell(first.error || "It was refused."); return; }
    dialog.replaceChildren(h("h2", {}, first.question), text(event.text || `#${event.seq}`, "clamped"),
      h("div", { class: "buttons" }, h("button", { type: "button", class: "quiet", onclick: () => dialog.close() }, "Cancel"),
        h("button", { type: "button", class: "act strong", onclick: async () => {
          dialog.close();
          const done = await post({ action, id: event.id, confirm: first.confirm });
          if (done.ok) remember(action, event);
          tell(done.ok ? done.done : done.error || "It was refused.");
        } }, action.charAt(0).toUpperCase() + action.slice(1))));
    dialog.showModal();
  }
  // What was forgotten last is on no page any more, so its number is kept to take it back.
  function remember(action, event) {
    if (action === "forget") sessionStorage.setItem("forgotten", JSON.stringify({ id: event.id, seq: event.seq }));
    else if (action === "unforget") sessionStorage.removeItem("forgotten");
  }
  function tell(words) {
    const last = JSON.parse(sessionStorage.getItem("forgotten") || "null");
    if (words) announce(words);
    document.getElementById("live-state").replaceChildren(words || "Live: the page follows the log.");
    if (last) {
      document.getElementById("live-state").append(" ", h("button", { type: "button", class: "quiet small", onclick: () => ask("unforget", { ...last, text: "" }) }, `Take back that #${last.seq} was forgotten`));
    }
  }
  function follow() {
    const state = document.getElementById("live-state");
    setInterval(async () => {
      if (document.hidden || dialog.open) return;
      try {
        const answer = await fetch(`${root}/version`);
        const found = await answer.json();
        const typing = document.activeElement && document.activeElement.id === "search" && document.activeElement.value;
        if (found.version === page.live.version) return;
        if (typing) state.textContent = "There are new events; the page follows when you leave the search.";
        else location.reload();
      } catch { state.textContent = "The server has gone; this is how it was."; }
    }, page.live.seconds * 1000);
  }

  // ---- the frame ----

  const DRAW = { block: drawBlock, "left-out": drawLeftOut, prefix: drawPrefix, timeline: drawTimeline, values: drawValues, sessions: drawSessions, tasks: drawTasks, files: drawFiles, privacy: drawPrivacy, health: drawHealth };
  const main = h("main", { id: "main", "aria-labelledby": "view-title" });
  const links = new Map();

  function show(focus) {
    const [wanted, part] = decodeURIComponent(location.hash.replace(/^#\/?/, "")).split("/");
    const view = views.get(wanted) || page.views[0];
    for (const [id, link] of links) {
      if (id === view.id) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    const current = links.get(view.id);
    if (current) current.scrollIntoView({ block: "nearest", inline: "nearest" });
    if (main.dataset.view !== view.id) {
      main.dataset.view = view.id;
      main.replaceChildren(...(DRAW[view.id] || drawReport)(view).flat(Infinity).filter((one) => one instanceof Node));
      scrollTo(0, 0);
      if (focus) document.getElementById("view-title").focus({ preventScroll: true });
    }
    const target = part && document.getElementById(`${view.id}/${part}`);
    if (target) target.scrollIntoView({ block: "start" });
  }

  function theme() {
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    const button = h("button", { type: "button", class: "quiet theme", onclick: () => {
      const next = (document.documentElement.dataset.theme || (dark ? "dark" : "light")) === "dark" ? "light" : "dark";
      document.documentElement.dataset.theme = next;
      button.textContent = next === "dark" ? "Light" : "Dark";
    } }, dark ? "Light" : "Dark");
    button.title = "Switch between light and dark";
    return button;
  }

  function top() {
    const facts = page.facts;
    const parts = facts ? [["Channel", facts.channel], ["As of", `${moment(facts.now)} UTC`], ["Log", count(facts.seq, "line")], ["Sessions", number(facts.sessions)],
      ["Plane", facts.plane], ["Report", facts.report], ["Session", facts.session], ["Since", facts.since], ["Folder", facts.home]].filter(([, value]) => value) : (page.about || []);
    return h("header", { class: "top" }, h("div", { class: "brand" }, h("h1", {}, h("span", { class: "mark" }, "memplane"), h("span", { class: "what" }, page.heading || "what this memory holds")), theme()),
      h("dl", { class: "page-facts" }, parts.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", { dir: "auto" }, value)))),
      page.private ? h("p", { class: "private", role: "note" }, h("strong", {}, "Private."), " This page was made for its owner and may hold personal text. Do not pass it on.") : null,
      (page.notices || []).map(note), page.live ? h("p", { class: "live", id: "live-state", role: "status" }, "Live: the page follows the log.") : null);
  }

  const unit = (view) => (view.count === undefined || view.count === null ? null : h("span", { class: "number" }, number(view.count)));
  const nav = h("nav", { "aria-label": "Views" }, h("ul", {}, page.views.map((view) => {
    const link = h("a", { href: `#/${view.id}` }, h("span", {}, view.label), unit(view));
    links.set(view.id, link);
    return h("li", {}, link);
  })));
  said = h("div", { class: "unseen", role: "status", "aria-live": "polite" });
  dialog = h("dialog", { "aria-label": "Confirm" });
  fill(document.getElementById("page"), null, [h("a", { class: "skip", href: "#main", onclick: (event) => { event.preventDefault(); document.getElementById("view-title").focus(); } }, "Skip to the view"),
    top(), h("div", { class: page.views.length > 1 ? "frame" : "frame alone" }, page.views.length > 1 ? nav : null, main), said, page.live ? dialog : null]);
  addEventListener("hashchange", () => show(true));
  addEventListener("keydown", (event) => {
    const field = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
    if (event.key === "/" && !field && document.getElementById("search")) {
      event.preventDefault();
      document.getElementById("search").focus();
    } else if ((event.key === "[" || event.key === "]") && !field && !event.ctrlKey && !event.metaKey) {
      const ids = [...links.keys()];
      const at = ids.indexOf(main.dataset.view) + (event.key === "]" ? 1 : -1);
      location.hash = `/${ids[(at + ids.length) % ids.length]}`;
    }
  });
  show(false);
  if (page.live) { tell(""); follow(); }
})();
