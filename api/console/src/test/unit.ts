// Tests of functions that need no server. They run in Chromium, from a Go test.

import { lastBefore, csv, join } from "../charts/table";
import { queryOf, refresh, sampling, spanOf } from "../charts/periods";
import { flowOf } from "../diagram/flow";
import { beside, boxAt, obstacles } from "../diagram/layout";
import { labelledLines } from "../diagram/draw";
import { changes, differ, differing, emptyDoc, settings, toDoc, varsOf, type Doc, type Item } from "../diagram/model";
import { savedBy } from "../editor/conflict";
import { begin, commit, rebase, redo, undo } from "../editor/history";
import { overwrite } from "../editor/editor";
import { add, duplicate, fresh, move, movePoint, remove, set, snap } from "../editor/operations";
import { ago, isMissing, isState, number, show } from "../format";
import { choose } from "../i18n";
import { bandLevel, colorLevel, limitsOf } from "../limits";
import { diagramOf, grantOf, sees } from "../menus";
import { concerns } from "../pages/releases";
import { groupReach } from "../releases/reach";
import { colorsOf, tableOf } from "../releases/spread";
import { alarmOf, opinionOf } from "../releases/verdict";
import { parseHash } from "../router";
import { parse } from "../session";
import { lateSince, path } from "../sparkline";
import { batch, chartVars, historyOf, historyQueries, search, toVar } from "../variables";

const failures: string[] = [];
let checks = 0;

function same(name: string, got: unknown, want: unknown): void {
  checks++;
  const [a, b] = [JSON.stringify(got), JSON.stringify(want)];
  if (a !== b) failures.push(`${name}: ${a}, want ${b}`);
}

function displayRules(): void {
  choose("es");
  for (const missing of [null, undefined, "", "abc", NaN, Infinity, {}]) same("missing " + String(missing), isMissing(missing), true);
  for (const value of [0, 1.5, "3", false]) same("there " + String(value), isMissing(value), false);
  for (const field of ["status", "estados_0", "mi_estado_2"]) same(field, isState({ measurement: "m", field: "f", calc_field: field }), true);
  same("no state", isState({ measurement: "m", field: "estado" }), false);
  same("form B is no state", isState({ a: { measure: "m", calc_field: "estados_0" } } as never), false);
  const state = { measurement: "m", calc_field: "estados_0" };
  same("on", show(1, state, null), { text: "Encendido", unit: "", missing: false });
  same("off", show(2, state, null).text, "Apagado");
  same("no data", show(null, state, "m"), { text: "Sin datos", unit: "", missing: true });
  same("zero is a value", show(0, undefined, "m"), { text: "0", unit: "m", missing: false });
  same("decimals", [number(1234.56), number(3.14159), number(-0), number(0.0004)].join(" ").replace(/[.,\s]/g, ""), ["1235", "3142", "0", "0"].join(""));
  choose("en");
  same("english", [show(1, state).text, show(null).text, ago(1000, 91_000)], ["On", "No data", "2m ago"]);
}

function variables(): void {
  const level = toVar({ id: 1, name: "Nivel", unit: "m", varsTs: { measurement: "t", field: "nivel" } });
  const mean = toVar({ id: 1, name: "Nivel medio", unit: "m", type: "mean", varsTs: { measurement: "t", field: "nivel" } });
  const state = toVar({ id: 2, name: "Bomba", varsTs: { measurement: "b", field: "marcha", calc_field: "estados_0" } });
  const { items, keys } = batch([level, mean, level, state]);
  same("a batch asks once, and under ids that differ", items.map((i) => [i.id, i.type]), [["1", "last"], ["1'", "mean"], ["2", "last"]]);
  same("keys", [...keys.values()], [level.key, mean.key, state.key]);
  same("history asks both fields", historyQueries(state, "5m").map((q) => q.field), ["estados_0", "marcha"]);
  same("the first with points counts", historyOf(state, { [state.key + "#0"]: [], [state.key + "#1"]: [7] }), [7]);
  same("search without accents", search([level, state], "NIVEL m").map((v) => v.id), [1]);
  const pumps = { id: 1, component: "PumpControl", data: { initialPumps: [{ varId: 9, name: "P", value: { measurement: "b", field: "q" } }], initialStates: [{}] } };
  const states = { id: 2, component: "MultipleBooleanChart", data: { items: [{ tsVar: state }, { label: "x" }] } };
  const other = { id: 3, component: "Gauge", data: { a: level, min: 0, b: null, c: [1] } };
  same("variables of charts", [pumps, states, other].map((c) => chartVars(c as never).map((v) => v.id)), [[9], [2], [1]]);
}

function limits(): void {
  same("colours", ["#d32f2f", "#f9a825", "#2e7d32", "#90a4ae", "#1976d2", "red", null].map(colorLevel), ["severe", "abnormal", "", "", "", "", ""]);
  const v = { id: 1, name: "P", varsTs: { measurement: "m", field: "p" } };
  const bands = [{ from: 0, to: 5, color: "#d32f2f" }, { from: 5, to: 9, color: "#2e7d32" }];
  const found = limitsOf([{ id: 1, component: "GaugeChart", data: { value: v, bands } } as never]);
  same("limits of a gauge", [3, 6, 20].map((x) => found.get(toVar(v as never).key)?.(x)), ["severe", "", ""]);
  same("no band", bandLevel([], 3), "");
}

function tables(): void {
  const points = (...all: [number, number][]) => all.map(([ts, value]) => ({ ts, value }));
  const table = join([points([0, 1], [1000, 2], [2000, 3], [9000, 4]), points([1000, 5])], 1000);
  same("times", table.times, [0, 1, 2, 3, 9]);
  same("a gap is null", table.columns[0], [1, 2, 3, null, 4]);
  same("another time is undefined", table.columns[1]!.map((x) => x === undefined), [true, false, true, true, true]);
  const sparse = join([points([0, 1], [60_000, 2], [120_000, 3])], 1000);
  same("sparse is no gap", sparse.columns[0], [1, 2, 3]);
  same("before the crosshair", [lastBefore([1, undefined, null], 2), lastBefore([], 0)], [0, -1]);
  const lines = csv({ times: [0, 1], columns: [[1.5, null], [undefined, undefined]] }, ['a "b"', "=cmd()"]).split("\r\n");
  same("csv", lines, ['time,"a ""b""",\'=cmd()', "1970-01-01T00:00:00.000Z,1.5,", ""]);
}

function periods(): void {
  same("sampling", [3_600_000, 86_400_000, 30 * 86_400_000].map((ms) => sampling(ms).text), ["5s", "2m", "1h"]);
  same("address", spanOf(new URLSearchParams("p=7d")), { period: "7d" });
  same("range", spanOf(new URLSearchParams(queryOf({ range: { start: 5, stop: 9 } }))), { range: { start: 5, stop: 9 } });
  same("nonsense", spanOf(new URLSearchParams("p=constructor&from=9&to=5")), { period: "24h" });
  same("refresh", [refresh({ period: "1h" }, 0), refresh({ period: "24h" }, 0), refresh({ range: { start: 1, stop: 2 } }, 0)], [15_000, 120_000, null]);
}

const doc = (): Doc => toDoc({
  id: 1, title: "d", status: 1, backgroundColor: "", backgroundImg: "", version: 4, width: 100,
  lines: [{ id: 1, points: { start: { left: 0, top: 0 }, end: { left: 50, top: 0 } }, custom: "kept", id_tsvars: 7, variable: { name: "Q", unit: "l/s", varsTs: { measurement: "m", field: "q" } } }],
  images: [], texts: [{ id: 2, text: "T", left: 5, top: 5 }], polylines: [],
} as never);

function editing(): void {
  const before = doc();
  const moved = move(before, [{ kind: "lines", id: 1 }], 10, 20);
  same("only what changed is saved", changes(before, moved), {
    diagram: before.head,
    lines: [{ id: 1, points: { start: { left: 10, top: 20 }, end: { left: 60, top: 20 } }, custom: "kept", id_tsvars: 7 }],
    images: [], texts: [], polylines: [], deleted: { lines: [], images: [], texts: [], polylines: [] },
  });
  const added = add(before, "texts", fresh.text({ left: 1, top: 2 }, "new"));
  same("new objects have no id", changes(before, added.doc).texts, [{ status: 1, left: 1, top: 2, text: "new", fontSize: 16, fill: "#1f2428" }]);
  same("deleted", changes(before, remove(before, [{ kind: "texts", id: 2 }])).deleted, { lines: [], images: [], texts: [2], polylines: [] });
  same("nothing new is deleted", changes(before, remove(added.doc, [added.ref])).deleted?.texts, []);
  const h = commit(commit(begin(before), moved), added.doc);
  same("undo and redo", [undo(undo(h)).now === before, redo(undo(h)).now === added.doc, undo(begin(before)).now === before], [true, true, true]);
  same("an undone change is nothing to save", changes(before, undo(commit(begin(before), moved)).now).lines, []);
  const copy = duplicate(before, [{ kind: "lines", id: 1 }]);
  same("copies lie beside", [copy.doc.lines.length, copy.refs[0]!.id < 0, copy.doc.lines[1]!.points], [2, true, { start: { left: 20, top: 20 }, end: { left: 70, top: 20 } }]);
  same("snap to a corner, else to the grid", [snap(before, { left: 46, top: 5 }), snap(before, { left: 146, top: 54 })], [{ left: 50, top: 0 }, { left: 150, top: 50 }]);
  const bent = movePoint(before, { kind: "lines", id: 1 }, 1, { left: 9, top: 9 });
  same("a corner", bent.lines[0]!.points, { start: { left: 0, top: 0 }, end: { left: 9, top: 9 } });
  const theirs: Doc = { ...set(before, { kind: "texts", id: 2 }, { text: "theirs" }), head: { ...before.head, version: 5 } };
  const body = overwrite(theirs, moved);
  same("overwriting takes the present version", [(body.diagram as { version?: number }).version, body.lines?.length, body.texts], [5, 1, [{ id: 2, text: "T", left: 5, top: 5 }]]);
  const typed = commit(commit(commit(begin(before), moved, "a"), added.doc, "a"), bent, "b");
  same("what is typed in one field is one step", [undo(typed).now === added.doc, undo(undo(typed)).now === before], [true, true]);
  same("a new diagram", changes(null, emptyDoc("x")).diagram.title, "x");
}

function saving(): void {
  const before = doc();
  const first = add(before, "texts", fresh.text({ left: 1, top: 2 }, "a"));
  const second = add(first.doc, "texts", fresh.text({ left: 3, top: 4 }, "b"));
  const sent = remove(second.doc, [{ kind: "lines", id: 1 }]);
  const answer = (made: Doc, version: number): Doc => JSON.parse(JSON.stringify({ ...made, head: { ...made.head, version } }));
  const stored = answer({ ...sent, texts: sent.texts.map((item, i) => (item.id < 0 ? { ...item, id: 10 + i } : item)) }, 5);
  const { history, renamed } = rebase(commit(commit(begin(before), first.doc), sent), sent, stored);
  same("after a save there is nothing to save", [history.now === stored, differ(stored, history.now)], [true, false]);
  same("what was chosen stays chosen", [renamed(first.ref), renamed(second.ref)], [{ kind: "texts", id: 11 }, { kind: "texts", id: 12 }]);
  const back = changes(stored, undo(history).now);
  same("a step back after a save has the new ids and version", [back.diagram.version, back.texts, back.deleted?.texts], [5, [], [12]]);
  same("what was deleted comes back as a new object", back.lines?.map((l) => [l.id, l["custom" as never]]), [[undefined, "kept"]]);
  const more = rebase(commit(commit(begin(before), sent), move(sent, [first.ref], 5, 5)), sent, stored).history;
  same("what was changed after the save stays", changes(stored, more.now).texts?.map((x) => [x.id, x.left, x.top]), [[11, 6, 7]]);
  const theirs = answer(set(before, { kind: "texts", id: 2 }, { text: "theirs" }), 7);
  const taken = commit(rebase(commit(begin(before), sent), before, theirs).history, theirs);
  same("what was discarded can be had back", [undo(taken).now.head.version, undo(taken).now.texts.map((x) => x.text)], [7, ["T", "a", "b"]]);
  same("who saved, and when", [savedBy("the diagram was saved by a b@example.com at 23/11/26, 05:30:12 a. m., since it was read: read version 4 and save again"), savedBy("the diagram was saved by an import, since it was read")],
    [{ who: "a b@example.com", when: "23/11/26, 05:30:12 a. m" }, null]);
  same("settings differ, but for the version", settings(before, { ...before, head: { ...before.head, version: 9, title: "x", height: 5 } }), ["title", "height"]);
  same("objects that differ", differing(theirs, sent), [{ kind: "lines", id: 1 }, { kind: "texts", id: 2 }, first.ref, second.ref]);
  same("the order of members is no difference", differ(before, { ...before, texts: [{ top: 5, left: 5, text: "T", id: 2 }] }), false);
  const line = (id: number, x1: number, x2: number, v = 7): Item => ({ id, points: { start: { left: x1, top: 0 }, end: { left: x2, top: 0 } }, id_tsvars: v, variable: { name: "Q", unit: "l/s", varsTs: { measurement: "m", field: "q" + v } } });
  const labelled = (...lines: Item[]) => labelledLines({ ...before, lines }, new Map()).map(({ item }) => item.id).sort();
  same("a value stands at each pipe, once", [labelled(line(1, 0, 10), line(2, 10, 40), line(3, 60, 90)), labelled(line(1, 0, 10), line(2, 20, 60), line(3, 10, 20)), labelled(line(1, 0, 10), line(2, 10, 20, 8))], [[2, 3], [2], [1, 2]]);
}

function drawing(): void {
  same("no flow", [flowOf(null, true, false), flowOf(0, true, false), flowOf(5, false, false)], [null, null, null]);
  same("direction", [flowOf(5, true, false)?.reverse, flowOf(-5, true, false)?.reverse, flowOf(-5, true, true)?.reverse], [false, true, false]);
  same("more is faster", flowOf(100, true, false)!.seconds < flowOf(1, true, false)!.seconds, true);
  same("a bound line", varsOf("lines", doc().lines[0]!, new Map()).map((v) => [v.id, v.name]), [[7, "Q"]]);
  const canvas = { width: 200, height: 200 };
  const owner = boxAt(50, 50, 40, 40);
  const near = (lines: ReturnType<typeof boxAt>[], others: typeof lines) => beside(owner, 40, 10, { lines, others }, canvas);
  same("below", near([], [owner]), boxAt(50, 93, 40, 10));
  same("above", near([boxAt(0, 95, 200, 1)], []), boxAt(50, 37, 40, 10));
  same("not beside the text of another", near([boxAt(0, 95, 200, 1)], [boxAt(50, 20, 40, 10)]), boxAt(93, 50, 40, 10));
  same("clear of a line at the side", near([boxAt(0, 95, 200, 1), boxAt(0, 40, 200, 1), boxAt(90, 55, 90, 1)], []), boxAt(93, 79, 40, 10));
  same("nowhere else", near([boxAt(0, 0, 200, 200)], []), boxAt(50, 80, 40, 10));
  same("obstacles", [obstacles(doc()).lines.length, obstacles(doc()).others.length], [1, 1]);
  const hour = 3_600_000;
  same("late", [lateSince([[0, 1]], hour), lateSince([[0, 1]], 3 * hour), lateSince([], hour)], [null, hour / 2, null]);
  same("a gap in a sparkline", path([[0, 1], [hour / 2, 2], [3 * hour, 1]], 24 * hour, 160, 36).match(/[ML]/g)?.join(""), "MLM");
}

function others(): void {
  const hash = parseHash("#/diagrams/7/edit?a=b%20c");
  same("address", [hash.path, hash.query.get("a")], [["diagrams", "7", "edit"], "b c"]);
  same("broken address", parseHash("#/%E0%A4%A").path, ["%E0%A4%A"]);
  const token = "h." + btoa(JSON.stringify({ sub: "12", profile: 7, schemaName: "acueducto" })).replace(/=+$/, "") + ".s";
  same("claims", parse(token), { token, user: 12, profile: 7, schema: "acueducto" });
  same("no token", parse("nonsense"), null);
  const rows = [{ id: 1, id_menu: 3, id_profile: 7, id_user: null, status: true }, { id: 2, id_menu: 3, id_profile: null, id_user: 1, status: false }];
  const to = (path: string) => diagramOf({ id: 1, name: "", icon: "", path, status: true });
  same("menus that lead to diagrams", ["/diagramas/7", "diagrams/12/", "/red/Diagrama/3", "/diagramas", "/diagramas/editor", "/mapa/7", "/diagramas/7/editar"].map(to), [7, 12, 3, null, null, null, null]);
  const item = (id: number, status: boolean) => ({ id, name: "", icon: "", path: "", status });
  same("who sees what", [sees(rows, item(3, true)), sees(rows, item(3, false)), sees(rows, item(9, true))], [false, false, false]);
  same("grants", [grantOf(rows, 3, "id_profile"), grantOf(rows, 3, "id_user"), grantOf(rows, 4, "id_user")], [true, false, null]);
}

function releases(): void {
  const cell = (version: string, address: string, rollout: string, outcome: string, bundle_type = "deb") =>
    ({ version, target: "linux-x86_64", bundle_type, address, rollout, downgrades: false, outcome, offered: outcome === "offered" ? "1.2.0" : "" }) as never;
  const all = (version: string, outcome: string) => ["static", "dynamic"].flatMap((a) => ["in", "out"].map((side) => cell(version, a, side, outcome)));
  const clients = (version: string, n: number) => ({ version, target: "linux-x86_64", type: "deb", clients: n });
  const counts = [clients("1.0.0", 30), clients("1.1.0", 10), clients("1.2.0", 5)];
  const brief = (groups: ReturnType<typeof groupReach>) => groups.map((g) => [g.first, g.last, g.versions, ...g.lots.map((l) => [l.outcome, l.about + String(l.clients), ...l.on.map((o) => o.ways)])]);
  same("versions that get the same are one group", brief(groupReach([...all("1.0.0", "offered"), ...all("1.1.0", "offered"), ...all("1.2.0", "current")], counts, 100)),
    [["1.0.0", "1.1.0", 2, ["offered", "40", ""]], ["1.2.0", "1.2.0", 1, ["current", "5", ""]]]);
  const half = ["static", "dynamic"].flatMap((a) => [cell("1.0.0", a, "in", "offered"), cell("1.0.0", a, "out", "current")]);
  same("a rollout's share is an estimate", brief(groupReach(half, counts, 25)), [["1.0.0", "1.0.0", 1, ["offered", "≈8", "in"], ["current", "≈23", "out"]]]);
  const split = ["in", "out"].flatMap((side) => [cell("1.0.0", "static", side, "offered"), cell("1.0.0", "dynamic", side, "current")]);
  same("by address it is the most", brief(groupReach(split, counts, 100)), [["1.0.0", "1.0.0", 1, ["offered", "≤30", "static"], ["current", "≤30", "dynamic"]]]);
  const types = [...all("1.0.0", "offered"), cell("1.0.0", "static", "in", "misfit", "rpm")];
  same("kinds that nobody has count nothing", brief(groupReach(types, counts, 100)).flat().slice(3), [["offered", "30", ""], ["misfit", "0", "static in"]]);
  same("without a fleet there are no numbers", brief(groupReach(all("1.0.0", "offered"), null, 100)), [["1.0.0", "1.0.0", 1, ["offered", "null", ""]]]);
  same("nothing", groupReach([], counts, 100), []);
  const curve = (version: string, ...points: [string, number][]) => ({ version, points: points.map(([time, n]) => ({ time, clients: n })) });
  same("curves share their times", tableOf([curve("1.1.0", ["1970-01-01T00:02:00Z", 5]), curve("1.0.0", ["1970-01-01T00:01:00Z", 9], ["1970-01-01T00:02:00Z", 4])] as never),
    { times: [60, 120], columns: [[undefined, 5], [9, 4]] });
  const old = colorsOf(["1.1.0", "1.0.0"]);
  same("versions keep their colours", colorsOf(["1.3.0", "1.2.0", "1.1.0", "1.0.0"]).slice(2), old);
  same("no two have the same colour", new Set(colorsOf(["8", "7", "6", "5", "4", "3", "2", "1"])).size, 8);
  const opinion = (decision: string, count: number, of: number, low: number, more: object = {}) =>
    ({ version: "1.1.0", before: "1.0.0", decision, networks_required: 3, networks: { fetched: 2, failing: 1 }, verdict: { decision, sentence: "", first: false, outcomes: of, needed: 20, limit: 0.02, bar: 0.02, failing: { count, of, low, high: 1 }, ...more } }) as never;
  same("alarms", [alarmOf(opinion("wait", 0, 5, 0)), alarmOf(opinion("wait", 1, 5, 0.01)), alarmOf(opinion("wait", 3, 5, 0.2)), alarmOf(opinion("halt", 1, 100, 0)), alarmOf(opinion("wait", 0, 0, 0))], ["", "abnormal", "severe", "severe", ""]);
  same("why it waits", [opinionOf(opinion("wait", 0, 5, 0, { cause: "evidence", to_halt: 3 }), true), opinionOf(opinion("wait", 0, 5, 0, { cause: "evidence" }), false)],
    [["The next step waits: it needs to know what became of 20 clients, and knows it of 5.", "Failures in a row that would stop it: 3."], []]);
  same("why it is stopped", ["limit", "settled", "before", "waiting"].map((cause) => opinionOf(opinion("halt", 9, 10, 0.5, { cause }), true)[0]!.split(":")[0]), ["Stop it", "Stop it", "Stop it", "Stop it"]);
  same("too few networks", opinionOf({ ...(opinion("halt", 9, 10, 0.5, { cause: "limit" }) as object), decision: "wait" } as never, true).at(-1), "Networks that this comes from: 1. The guard stops a rollout only if it fails in 3.");
  same("nothing known", [opinionOf(opinion("continue", 0, 5, 0, { first: true }), true), opinionOf(opinion("continue", 0, 0, 0, { needed: 0 }), false)], [["Nothing stands in the way of the next step.", "Nothing is known of how a release before it did, so the limit alone decides."], []]);
  same("alarms of a channel", ["stable/latest.json", "stable/rings/07/latest.json", "log/stable/0000000001.json", "releases/1.0.0/release.json", "releases/2.0.0/release.json", "beta/latest.json"]
    .map((object) => concerns(object, "stable", ["1.0.0"])), [true, true, true, true, false, false]);
}

for (const test of [displayRules, variables, limits, tables, periods, editing, saving, drawing, others, releases]) {
  try {
    test();
  } catch (error) {
    failures.push(`${test.name}: ${String(error)}`);
  }
}
Object.assign(window, { results: JSON.stringify({ checks, failures }) });
