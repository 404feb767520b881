import type { Doc } from "../diagram/model";

/** States of a diagram that can be gone back to. */
export interface History {
  past: readonly Doc[];
  now: Doc;
  future: readonly Doc[];
}

/** How many steps can be undone. */
const most = 500;

export const begin = (doc: Doc): History => ({ past: [], now: doc, future: [] });

export function commit(h: History, doc: Doc): History {
  return doc === h.now ? h : { past: [...h.past.slice(-most + 1), h.now], now: doc, future: [] };
}

export function undo(h: History): History {
  const before = h.past.at(-1);
  return before ? { past: h.past.slice(0, -1), now: before, future: [h.now, ...h.future] } : h;
}

export function redo(h: History): History {
  const [after, ...future] = h.future;
  return after ? { past: [...h.past, h.now], now: after, future } : h;
}
