import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import * as api from "../api";
import { changes, differ, find, kinds, text, toDoc, type ById, type Doc, type Ref } from "../diagram/model";
import { clock } from "../format";
import { t, type Key } from "../i18n";
import type { Var } from "../variables";
import { sentence } from "../ui";
import { Bar, Objects } from "./bar";
import { Canvas } from "./canvas";
import { Conflict } from "./conflict";
import { keepDraft, keptDraft } from "./draft";
import * as history from "./history";
import { useEditorKeys, type Tool } from "./keys";
import { continueIds, duplicate, move, remove } from "./operations";
import { Properties, takeTyped } from "./properties";

interface EditorProps {
  id: number;
  loaded: Doc;
  vars: Var[];
  byId: ById;
  /** Is called with the diagram's id to read it again; then loaded is what is stored. */
  reload: (id: number) => void;
}

/** How a save went. */
type Saving =
  | { state: "idle" | "busy" | "done" | "unchanged" | "theirs" | "taken" }
  | { state: "failed"; message: string }
  | { state: "conflict"; theirs: Doc; message: string };

/** What the diagram is read again for, and the state that the server was sent or had. */
interface Reading {
  why: "saved" | "look" | "take";
  sent: Doc;
}

export function Editor({ id, loaded, vars, byId, reload }: EditorProps): JSX.Element {
  const [draft] = useState(() => keptDraft(id));
  const [steps, setSteps] = useState(() => resume(draft?.doc, loaded));
  const [chosen, setChosen] = useState<Ref[]>([]);
  const [tool, setTool] = useState<Tool>("select");
  const [saving, setSaving] = useState<Saving>({ state: "idle" });
  const [asked, setAsked] = useState(0); // how often a save was asked for
  const opened = useRef(loaded);
  const reading = useRef<Reading | null>(null);
  const root = useRef<HTMLDivElement>(null);
  const words = useRef(false); // a new text waits for its words
  const left = useRef(false);
  const doc = steps.now;
  const dirty = differ(loaded, doc);
  const selection = chosen.filter((ref) => find(doc, ref));
  const read = (of: Reading, newId = id) => { reading.current = of; reload(newId); };
  const store = async (body: ReturnType<typeof changes>) => {
    setSaving({ state: "busy" });
    try {
      const newId = await api.saveDiagram(body);
      keepDraft(id, null);
      read({ why: "saved", sent: doc }, newId);
    } catch (error) {
      const failure = api.asFailure(error);
      const theirs = failure.status === 409 ? await api.diagram(id).catch(() => null) : null;
      setSaving(theirs ? { state: "conflict", theirs: toDoc(theirs), message: failure.message } : { state: "failed", message: sentence(failure) });
    }
  };
  useLayoutEffect(() => {
    if (asked === 0 || saving.state === "busy") return;
    if (dirty) void store(changes(id > 0 ? loaded : null, doc));
    else if (id > 0) read({ why: "look", sent: loaded });
    else setSaving({ state: "unchanged" });
  }, [asked]);
  useLayoutEffect(() => {
    if (loaded === opened.current) return;
    const { why, sent } = reading.current ?? { why: "look", sent: opened.current };
    const newer = loaded.head.version !== opened.current.head.version;
    opened.current = loaded;
    const { history: next, renamed } = history.rebase(steps, sent, loaded);
    setSteps(why === "take" ? history.commit(next, loaded) : next);
    setChosen((refs) => refs.map(renamed));
    setSaving({ state: why === "saved" ? "done" : why === "take" ? "taken" : newer ? "theirs" : "unchanged" });
  }, [loaded]);
  const commit = (next: Doc, topic?: string) => {
    if (left.current) keepDraft(id, next);
    setSteps((h) => history.commit(h, next, topic));
    setSaving((s) => (s.state === "busy" ? s : { state: "idle" }));
  };
  const save = () => { takeTyped(); setAsked((n) => n + 1); };
  const undo = () => setSteps(history.undo);
  const redo = () => setSteps(history.redo);
  useLayoutEffect(() => keepDraft(id, dirty ? doc : null), [doc, dirty]);
  useLayoutEffect(() => () => { left.current = true; takeTyped(); }, []); // the browser's own way back leaves the field as it is
  useLeaveWarning(dirty);
  const draw = () => root.current?.querySelector<SVGSVGElement>(".canvas")?.focus({ preventScroll: true });
  // What had the focus may be gone: the drawing is where a person goes on.
  useLayoutEffect(() => {
    const field = words.current && root.current?.querySelector<HTMLInputElement>("[data-words]");
    if (field) {
      words.current = false;
      field.focus();
      field.select();
    } else if (document.activeElement?.matches("body, main") && !document.querySelector("dialog")) draw();
  });
  const drop = () => commit(remove(doc, selection));
  useEditorKeys({
    tool: setTool, save, undo, redo, remove: drop,
    all: () => setChosen(kinds.flatMap((kind) => doc[kind].map((item) => ({ kind, id: item.id })))),
    none: () => { setTool("select"); setChosen([]); },
    duplicate: () => { const copy = duplicate(doc, selection); commit(copy.doc); setChosen(copy.refs); },
    move: (dx, dy) => selection.length > 0 && commit(move(doc, selection, dx, dy)),
  });
  const status = statusOf(saving, dirty, draft && doc === draft.doc ? draft.at : 0);
  return (
    <div class="editor" ref={root}>
      <Bar
        {...{ id, tool, setTool, dirty, save, draw, status }} title={text(doc.head.title)} busy={saving.state === "busy"}
        undo={steps.past.length > 0 ? undo : undefined} redo={steps.future.length > 0 ? redo : undefined}
      />
      <Objects doc={doc} chosen={selection} choose={setChosen} />
      <div class="stage">
        <Canvas
          doc={doc} byId={byId} tool={tool} chosen={selection} choose={setChosen} commit={commit}
          done={(kind) => { words.current = kind === "texts"; setTool("select"); }}
        />
        <p class="dim" id="drawing-hint">{t(tool === "select" ? "hintSelect" : "hintTool")}</p>
      </div>
      <Properties doc={doc} chosen={selection} vars={vars} byId={byId} commit={commit} remove={drop} />
      {saving.state === "conflict" && (
        <Conflict
          mine={doc} theirs={saving.theirs} message={saving.message} close={() => setSaving({ state: "idle" })}
          takeTheirs={() => { setSaving({ state: "busy" }); read({ why: "take", sent: loaded }); }}
          keepMine={() => void store(overwrite(saving.theirs, doc))}
        />
      )}
    </div>
  );
}

/** Goes on with the changes that were not saved when the editor was left. */
function resume(draft: Doc | undefined, loaded: Doc): history.History {
  if (!draft) return history.begin(loaded);
  continueIds(draft);
  return history.commit(history.begin(loaded), draft);
}

/** The save that makes a diagram this one, whatever others made of it meanwhile. */
export function overwrite(theirs: Doc, mine: Doc): ReturnType<typeof changes> {
  return changes(theirs, { ...mine, head: { ...mine.head, version: theirs.head.version } });
}

/** What the bar says about saving; resumed is when a draft was left that nobody changed since, or 0. */
function statusOf(saving: Saving, dirty: boolean, resumed: number): { text: string; failed: boolean } {
  if (saving.state === "failed") return { text: saving.message, failed: true };
  if (saving.state === "busy") return { text: t("saving"), failed: false };
  if (dirty) return { text: resumed > 0 ? t("draftResumed", { time: clock(resumed) }) : t("unsaved"), failed: false };
  const words: Partial<Record<Saving["state"], Key>> = { done: "savedDone", unchanged: "nothingToSave", theirs: "savedByOthers", taken: "tookTheirs" };
  const key = words[saving.state];
  return { text: key ? t(key) : "", failed: false };
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
