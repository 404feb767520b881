import { kinds, saves, settings, type Doc, type Item, type Kind, type Ref } from "../diagram/model";
import { newId } from "./operations";

/** States of a diagram that can be gone back to. */
export interface History {
  past: readonly Doc[];
  now: Doc;
  future: readonly Doc[];
  /** What the last step changed; more of the same joins it. */
  topic?: string | undefined;
}

/** How many steps can be undone. */
const most = 500;

export const begin = (doc: Doc): History => ({ past: [], now: doc, future: [] });

/** Adds a step. One with a topic replaces the last if that had the same. */
export function commit(h: History, doc: Doc, topic?: string): History {
  if (doc === h.now) return h;
  const past = topic !== undefined && topic === h.topic ? h.past : [...h.past.slice(-most + 1), h.now];
  return { past, now: doc, future: [], topic };
}

export function undo(h: History): History {
  const before = h.past.at(-1);
  return before ? { past: h.past.slice(0, -1), now: before, future: [h.now, ...h.future] } : h;
}

export function redo(h: History): History {
  const [after, ...future] = h.future;
  return after ? { past: [...h.past, h.now], now: after, future } : h;
}

/**
 * Goes on when the server has stored a state: sent is what was read from it or sent to
 * it, stored what it has now. Steps keep what can be undone, under the ids and the version
 * that the server gave; what was changed after sent stays. renamed tells an object's id.
 */
export function rebase(h: History, sent: Doc, stored: Doc): { history: History; renamed: (ref: Ref) => Ref } {
  const ids = new Map<string, number>();
  const same = new Map<Item, Item>();
  const present = new Set<string>();
  const name = (kind: Kind, id: number) => kind + id;
  for (const kind of kinds) {
    const known = new Map(sent[kind].map((item) => [item.id, item]));
    const made = stored[kind].filter((item) => !known.has(item.id)).sort((a, b) => a.id - b.id);
    const fresh = sent[kind].filter((item) => item.id < 0);
    // The server numbers new objects in the order in which they came.
    if (made.length === fresh.length) fresh.forEach((item, i) => { ids.set(name(kind, item.id), made[i]!.id); same.set(item, made[i]!); });
    for (const item of stored[kind]) {
      present.add(name(kind, item.id));
      const was = known.get(item.id);
      if (was && saves(kind, was) === saves(kind, item)) same.set(was, item);
    }
  }
  const idOf = (kind: Kind, id: number): number => {
    const key = name(kind, id);
    if (id > 0 && !present.has(key) && !ids.has(key)) ids.set(key, newId()); // it is deleted: undo makes it anew
    return ids.get(key) ?? id;
  };
  const moved = (kind: Kind, item: Item): Item => {
    const id = idOf(kind, item.id);
    return same.get(item) ?? (id === item.id ? item : { ...item, id });
  };
  const sameHead = settings(sent, stored).length === 0;
  const state = (doc: Doc): Doc => {
    if (doc === sent) return stored;
    const next = { head: sameHead && doc.head === sent.head ? stored.head : { ...doc.head, id: stored.head.id, version: stored.head.version } } as Doc;
    for (const kind of kinds) next[kind] = doc[kind].map((item) => moved(kind, item));
    return next;
  };
  const history = { past: h.past.map(state), now: state(h.now), future: h.future.map(state) };
  return { history, renamed: (ref) => ({ kind: ref.kind, id: idOf(ref.kind, ref.id) }) };
}
