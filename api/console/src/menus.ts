// Menu items, and what they lead to.

import type { Menu, Permission } from "./types.gen";

/** What the rows of a user or profile say of a menu item; null if they say nothing. */
export function grantOf(rows: Permission[], menu: number, of: "id_user" | "id_profile"): boolean | null {
  return rows.find((row) => row.id_menu === menu && row[of] !== null)?.status ?? null;
}

/** Whether a user, or a profile alone, sees a menu item. */
export function sees(rows: Permission[], m: Menu): boolean {
  return m.status && (grantOf(rows, m.id, "id_user") ?? grantOf(rows, m.id, "id_profile") ?? false);
}

/** The diagram that a menu item leads to, as /diagramas/7 and /diagrams/7 do, or null. */
export function diagramOf(m: Menu): number | null {
  const found = /(?:^|\/)diagram[a-z]*\/(\d{1,9})\/?$/i.exec(m.path);
  return found ? Number(found[1]) : null;
}
