// Changes that are not saved yet outlive the page: a session that expires, a link
// that was followed by mistake, a reload. They last as long as the tab.

import { kinds, type Doc } from "../diagram/model";
import { session } from "../session";

/** A state of a diagram that is not saved, and when it was left so. */
export interface Draft {
  at: number;
  doc: Doc;
}

const prefix = "tsmon.draft.";
const key = (id: number) => `${prefix}${session.get()?.schema ?? ""}.${id}`;

/** Keeps the state of a diagram, or forgets it if there is nothing to keep. */
export function keepDraft(id: number, doc: Doc | null): void {
  try {
    if (!doc) sessionStorage.removeItem(key(id));
    else if (JSON.stringify(keptDraft(id)?.doc) !== JSON.stringify(doc)) sessionStorage.setItem(key(id), JSON.stringify({ at: Date.now(), doc }));
  } catch {
    // Without storage a draft lasts as long as the page.
  }
}

/** Returns the state that was kept of a diagram, or null. */
export function keptDraft(id: number): Draft | null {
  try {
    const draft = JSON.parse(sessionStorage.getItem(key(id)) ?? "null") as Draft | null;
    const whole = draft && typeof draft.at === "number" && typeof draft.doc?.head === "object" && kinds.every((kind) => Array.isArray(draft.doc[kind]));
    return whole ? draft : null;
  } catch {
    return null;
  }
}

/** Whether any draft is kept in this tab, whoever is logged in. */
export function keepsDrafts(): boolean {
  try {
    return Object.keys(sessionStorage).some((name) => name.startsWith(prefix));
  } catch {
    return false;
  }
}
