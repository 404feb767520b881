// The keys of the editor.

import { useLayoutEffect, useRef } from "preact/hooks";
import type { Key } from "../i18n";

export type Tool = "select" | "line" | "polyline" | "text" | "image";

export const tools: { tool: Tool; key: string; label: Key; sign: string }[] = [
  { tool: "select", key: "v", label: "toolSelect", sign: "⬉" },
  { tool: "line", key: "l", label: "toolLine", sign: "╱" },
  { tool: "polyline", key: "p", label: "toolPolyline", sign: "⌵" },
  { tool: "text", key: "t", label: "toolText", sign: "T" },
  { tool: "image", key: "i", label: "toolImage", sign: "▣" },
];

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

export function useEditorKeys(actions: Actions): void {
  const latest = useRef(actions);
  latest.current = actions;
  useLayoutEffect(() => { // what is seen takes keys
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

/** Whether a field has nothing typed of its own to undo. */
const untyped = (element: HTMLElement) => element.dataset.typed === "false";

function handlerOf(e: KeyboardEvent, a: Actions): (() => void) | undefined {
  const element = e.target as HTMLElement;
  const control = e.ctrlKey || e.metaKey;
  const key = e.key.toLowerCase();
  const modal = element.closest("dialog") !== null;
  if (control && key === "s") return modal ? () => {} : a.save;
  if (modal) return undefined;
  const field = /^(INPUT|TEXTAREA|SELECT)$/.test(element.tagName);
  if (control && (!field || untyped(element))) {
    if (key === "z") return e.shiftKey ? a.redo : a.undo;
    if (key === "y") return a.redo;
  }
  if (field) return undefined;
  if (control) return { a: a.all, d: a.duplicate }[key];
  const way = arrows[e.key];
  if (way) return () => a.move(way[0] * (e.shiftKey ? 10 : 1), way[1] * (e.shiftKey ? 10 : 1));
  if (key === "delete" || key === "backspace") return a.remove;
  if (key === "escape") return a.none;
  const found = tools.find((x) => x.key === key);
  return found && !e.altKey ? () => a.tool(found.tool) : undefined;
}
