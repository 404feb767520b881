// The tools above the drawing, and the list of its objects.

import type { JSX } from "preact";
import { find, kinds, text, type Doc, type Kind, type Ref } from "../diagram/model";
import { t, type Key } from "../i18n";
import { href } from "../router";
import { tools, type Tool } from "./keys";

interface BarProps {
  id: number;
  title: string;
  tool: Tool;
  setTool: (tool: Tool) => void;
  /** Goes to the drawing: who chooses a tool with a key places the object with the next. */
  draw: () => void;
  status: { text: string; failed: boolean };
  dirty: boolean;
  busy: boolean;
  save: () => void;
  undo: (() => void) | undefined;
  redo: (() => void) | undefined;
}

export function Bar({ id, title, tool, setTool, draw, status, dirty, busy, save, undo, redo }: BarProps): JSX.Element {
  const choose = (e: MouseEvent, next: Tool) => {
    setTool(next);
    if (e.detail === 0 && next !== "select") draw(); // a key
  };
  return (
    <div class="tools editor-bar" role="toolbar" aria-label={t("edit")}>
      <h1>{title}</h1>
      {tools.map((x) => (
        <button type="button" key={x.tool} aria-pressed={tool === x.tool} title={`${t(x.label)} (${x.key.toUpperCase()})`} onClick={(e) => choose(e, x.tool)}>
          <span aria-hidden="true">{x.sign} </span>{t(x.label)}
        </button>
      ))}
      <button type="button" disabled={!undo} onClick={undo} title="Ctrl Z">{t("undo")}</button>
      <button type="button" disabled={!redo} onClick={redo} title="Ctrl ⇧ Z">{t("redo")}</button>
      <span class={(status.failed ? "problem" : "dim") + " saving"} role={status.failed ? "alert" : "status"}>{status.text}</span>
      <button type="button" class={dirty ? "primary" : ""} disabled={busy} onClick={save} title="Ctrl S / ⌘ S">{t("save")}</button>
      <a class="button" href={href(id > 0 ? "diagrams/" + id : "diagrams")}>{t("leaveEditor")}</a>
    </div>
  );
}

const names: Record<Kind, [name: Key, isNew: Key]> = {
  lines: ["toolLine", "isNewLine"], images: ["toolImage", "isNewImage"], texts: ["toolText", "isNewText"], polylines: ["toolPolyline", "isNewPolyline"],
};

/** What an object is called in lists. */
export function label(doc: Doc, ref: Ref): string {
  const item = find(doc, ref);
  const own = text(item?.text) || text(item?.title);
  const [name, isNew] = names[ref.kind];
  return own || (ref.id > 0 ? t(name) + " " + ref.id : t(isNew));
}

export function Objects({ doc, chosen, choose }: { doc: Doc; chosen: Ref[]; choose: (refs: Ref[]) => void }): JSX.Element {
  const step = (e: KeyboardEvent) => {
    const way = e.key === "ArrowDown" ? "nextElementSibling" : e.key === "ArrowUp" ? "previousElementSibling" : null;
    if (!way) return;
    e.preventDefault(); // arrows move objects elsewhere
    (e.target as Element).closest("li")?.[way]?.querySelector("button")?.focus();
  };
  return (
    <aside class="objects" aria-label={t("objects")}>
      <h2>{t("objects")}</h2>
      <ul onKeyDown={step}>
        {kinds.flatMap((kind) => doc[kind].map((item) => {
          const isChosen = chosen.some((ref) => ref.kind === kind && ref.id === item.id);
          return (
            <li key={kind + item.id}>
              <button type="button" class="quiet" aria-pressed={isChosen} onClick={() => choose([{ kind, id: item.id }])}>
                {label(doc, { kind, id: item.id })}
              </button>
            </li>
          );
        }))}
      </ul>
    </aside>
  );
}
