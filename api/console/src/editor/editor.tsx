import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import * as api from "../api";
import { changes, differences, find, kinds, text, toDoc, type ById, type Doc, type Kind, type Ref } from "../diagram/model";
import { t, type Key } from "../i18n";
import { href } from "../router";
import type { Var } from "../variables";
import { sentence } from "../ui";
import { Canvas } from "./canvas";
import { Conflict } from "./conflict";
import { keepDraft, keptDraft } from "./draft";
import * as history from "./history";
import { continueIds, duplicate, move, remove } from "./operations";
import { Properties } from "./properties";

export type Tool = "select" | "line" | "polyline" | "text" | "image";

const tools: { tool: Tool; key: string; label: Key; sign: string }[] = [
  { tool: "select", key: "v", label: "toolSelect", sign: "⬉" },
  { tool: "line", key: "l", label: "toolLine", sign: "╱" },
  { tool: "polyline", key: "p", label: "toolPolyline", sign: "⌵" },
  { tool: "text", key: "t", label: "toolText", sign: "T" },
  { tool: "image", key: "i", label: "toolImage", sign: "▣" },
];

interface EditorProps {
  id: number;
  loaded: Doc;
  vars: Var[];
  byId: ById;
  /** Is called with the diagram's id after a save; then loaded is what was stored. */
  saved: (id: number) => void;
}

/** How a save went. */
type Saving = { state: "idle" | "busy" | "done" } | { state: "failed"; message: string } | { state: "conflict"; theirs: Doc };

export function Editor({ id, loaded, vars, byId, saved }: EditorProps): JSX.Element {
  const [steps, setSteps] = useState(() => resume(id, loaded));
  const [chosen, setChosen] = useState<Ref[]>([]);
  const [tool, setTool] = useState<Tool>("select");
  const [saving, setSaving] = useState<Saving>({ state: "idle" });
  const opened = useRef(loaded);
  useEffect(() => {
    if (loaded === opened.current) return;
    opened.current = loaded;
    setSteps(history.begin(loaded)); // after a save: new objects have their ids now
    setChosen([]);
  }, [loaded]);
  const doc = steps.now;
  const commit = (next: Doc) => {
    setSteps((h) => history.commit(h, next));
    setSaving((s) => (s.state === "done" ? { state: "idle" } : s));
  };
  const selection = chosen.filter((ref) => find(doc, ref));
  const dirty = doc !== loaded && (differences(loaded, doc) > 0 || JSON.stringify(doc.head) !== JSON.stringify(loaded.head));
  const save = () => void store(id, changes(id > 0 ? loaded : null, doc), setSaving, saved);
  useEffect(() => keepDraft(id, dirty ? doc : null), [doc, dirty]);
  useLeaveWarning(dirty);
  useEditorKeys({
    tool: setTool, save,
    undo: () => setSteps(history.undo), redo: () => setSteps(history.redo),
    all: () => setChosen(kinds.flatMap((kind) => doc[kind].map((item) => ({ kind, id: item.id })))),
    none: () => { setTool("select"); setChosen([]); },
    remove: () => commit(remove(doc, selection)),
    duplicate: () => { const copy = duplicate(doc, selection); commit(copy.doc); setChosen(copy.refs); },
    move: (dx, dy) => selection.length > 0 && commit(move(doc, selection, dx, dy)),
  });
  return (
    <div class="editor">
      <Bar
        {...{ id, tool, setTool, saving, dirty, save }} title={text(doc.head.title)}
        undo={steps.past.length > 0 ? () => setSteps(history.undo) : undefined}
        redo={steps.future.length > 0 ? () => setSteps(history.redo) : undefined}
      />
      <Objects doc={doc} chosen={selection} choose={setChosen} />
      <Canvas doc={doc} byId={byId} tool={tool} chosen={selection} choose={setChosen} commit={commit} done={() => setTool("select")} />
      <Properties doc={doc} chosen={selection} vars={vars} byId={byId} commit={commit} remove={() => commit(remove(doc, selection))} />
      {saving.state === "conflict" && (
        <Conflict
          mine={doc} theirs={saving.theirs} close={() => setSaving({ state: "idle" })}
          takeTheirs={() => { setSaving({ state: "idle" }); keepDraft(id, null); saved(id); }}
          keepMine={() => void store(id, overwrite(saving.theirs, doc), setSaving, saved)}
        />
      )}
    </div>
  );
}

/** Goes on with the changes that were not saved when the editor was left. */
function resume(id: number, loaded: Doc): history.History {
  const draft = keptDraft(id);
  if (!draft) return history.begin(loaded);
  continueIds(draft);
  return history.commit(history.begin(loaded), draft);
}

/** The save that makes a diagram this one, whatever others made of it meanwhile. */
export function overwrite(theirs: Doc, mine: Doc): ReturnType<typeof changes> {
  return changes(theirs, { ...mine, head: { ...mine.head, version: theirs.head.version } });
}

async function store(id: number, body: ReturnType<typeof changes>, set: (s: Saving) => void, saved: (id: number) => void): Promise<void> {
  set({ state: "busy" });
  try {
    const newId = await api.saveDiagram(body);
    keepDraft(id, null);
    set({ state: "done" });
    saved(newId);
  } catch (error) {
    const failure = api.asFailure(error);
    const theirs = failure.status === 409 ? await api.diagram(id).catch(() => null) : null;
    set(theirs ? { state: "conflict", theirs: toDoc(theirs) } : { state: "failed", message: sentence(failure) });
  }
}

/** Asks before a page with unsaved changes is closed. */
function useLeaveWarning(dirty: boolean): void {
  useEffect(() => {
    if (!dirty) return undefined;
    const warn = (e: BeforeUnloadEvent) => e.preventDefault();
    window.addEventListener("beforeunload", warn);
    return () => window.removeEventListener("beforeunload", warn);
  }, [dirty]);
}

interface Actions {
  tool: (tool: Tool) => void;
  save: () => void;
  undo: () => void;
  redo: () => void;
  all: () => void;
  none: () => void;
  remove: () => void;
  duplicate: () => void;
  move: (dx: number, dy: number) => void;
}

const arrows: Record<string, [number, number]> = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

function useEditorKeys(actions: Actions): void {
  const latest = useRef(actions);
  latest.current = actions;
  useEffect(() => {
    const pressed = (e: KeyboardEvent) => {
      const handler = e.defaultPrevented ? undefined : handlerOf(e, latest.current);
      if (!handler) return;
      e.preventDefault();
      handler();
    };
    document.addEventListener("keydown", pressed);
    return () => document.removeEventListener("keydown", pressed);
  }, []);
}

function handlerOf(e: KeyboardEvent, a: Actions): (() => void) | undefined {
  const control = e.ctrlKey || e.metaKey;
  const key = e.key.toLowerCase();
  if (control && key === "s") return a.save;
  const element = e.target as HTMLElement;
  if (/^(INPUT|TEXTAREA|SELECT)$/.test(element.tagName) || element.closest("dialog")) return undefined;
  if (control) {
    if (key === "z") return e.shiftKey ? a.redo : a.undo;
    return { y: a.redo, a: a.all, d: a.duplicate }[key];
  }
  const way = arrows[e.key];
  if (way && element.closest(".canvas, .objects, body")) return () => a.move(way[0] * (e.shiftKey ? 10 : 1), way[1] * (e.shiftKey ? 10 : 1));
  if (key === "delete" || key === "backspace") return a.remove;
  if (key === "escape") return a.none;
  const found = tools.find((x) => x.key === key);
  return found && !e.altKey ? () => a.tool(found.tool) : undefined;
}

interface BarProps {
  id: number;
  title: string;
  tool: Tool;
  setTool: (tool: Tool) => void;
  saving: Saving;
  dirty: boolean;
  save: () => void;
  undo: (() => void) | undefined;
  redo: (() => void) | undefined;
}

function Bar({ id, title, tool, setTool, saving, dirty, save, undo, redo }: BarProps): JSX.Element {
  const busy = saving.state === "busy";
  return (
    <div class="tools editor-bar" role="toolbar" aria-label={t("edit")}>
      <h1>{title}</h1>
      {tools.map((x) => (
        <button type="button" key={x.tool} aria-pressed={tool === x.tool} title={`${t(x.label)} (${x.key.toUpperCase()})`} onClick={() => setTool(x.tool)}>
          <span aria-hidden="true">{x.sign} </span>{t(x.label)}
        </button>
      ))}
      <button type="button" disabled={!undo} onClick={undo} title="Ctrl Z">{t("undo")}</button>
      <button type="button" disabled={!redo} onClick={redo} title="Ctrl ⇧ Z">{t("redo")}</button>
      <span class="space" />
      <span class={saving.state === "failed" ? "problem" : "dim"} role={saving.state === "failed" ? "alert" : "status"}>
        {saving.state === "failed" ? saving.message : busy ? t("saving") : saving.state === "done" ? t("savedDone") : dirty ? t("unsaved") : ""}
      </span>
      <button type="button" class="primary" disabled={busy || !dirty} onClick={save} title="Ctrl S / ⌘ S">{t("save")}</button>
      <a class="button" href={href(id > 0 ? "diagrams/" + id : "diagrams")}>{t("leaveEditor")}</a>
    </div>
  );
}

/** What an object is called in lists. */
export function label(kind: Kind, doc: Doc, ref: Ref): string {
  const item = find(doc, ref);
  const own = text(item?.text) || text(item?.title);
  const names: Record<Kind, Key> = { lines: "toolLine", images: "toolImage", texts: "toolText", polylines: "toolPolyline" };
  return own || t(names[kind]) + " " + (ref.id > 0 ? ref.id : t("isNew"));
}

function Objects({ doc, chosen, choose }: { doc: Doc; chosen: Ref[]; choose: (refs: Ref[]) => void }): JSX.Element {
  return (
    <aside class="objects" aria-label={t("objects")}>
      <h2>{t("objects")}</h2>
      <ul>
        {kinds.flatMap((kind) => doc[kind].map((item) => {
          const isChosen = chosen.some((ref) => ref.kind === kind && ref.id === item.id);
          return (
            <li key={kind + item.id}>
              <button type="button" class="quiet" aria-pressed={isChosen} onClick={() => choose([{ kind, id: item.id }])}>
                {label(kind, doc, { kind, id: item.id })}
              </button>
            </li>
          );
        }))}
      </ul>
    </aside>
  );
}
