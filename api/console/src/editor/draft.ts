// Changes that are not saved yet outlive the page: a session that expires, a link
// that was followed by mistake, a reload. They last as long as the tab.

import { kinds, type Doc } from "../diagram/model";
import { session } from "../session";

const key = (id: number) => `tsmon.draft.${session.get()?.schema ?? ""}.${id}`;

/** Keeps the state of a diagram, or forgets it if there is nothing to keep. */
export function keepDraft(id: number, doc: Doc | null): void {
  try {
    if (doc) sessionStorage.setItem(key(id), JSON.stringify(doc));
    else sessionStorage.removeItem(key(id));
  } catch {
    // Without storage a draft lasts as long as the page.
  }
}

/** Returns the state that was kept of a diagram, or null. */
export function keptDraft(id: number): Doc | null {
  try {
    const doc = JSON.parse(sessionStorage.getItem(key(id)) ?? "null") as Doc | null;
    return doc && typeof doc.head === "object" && kinds.every((kind) => Array.isArray(doc[kind])) ? doc : null;
  } catch {
    return null;
  }
}
