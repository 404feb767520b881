import { store } from "./store";

/** Who is logged in, as the token's claims say. The server alone verifies them. */
export interface Session {
  token: string;
  user: number;
  profile: number;
  schema: string;
}

const key = "tsmon.token";

/** The session, or null. The token lives in memory and in this tab's storage. */
export const session = store<Session | null>(restore());

/** Why the last session ended, for the login page. */
export const ended = store<"" | "expired" | "left">("");

function restore(): Session | null {
  try {
    const token = sessionStorage.getItem(key);
    return token ? parse(token) : null;
  } catch {
    return null;
  }
}

/** Reads the claims of a JWT, or returns null for what is none. */
export function parse(token: string): Session | null {
  try {
    const part = token.split(".")[1]!.replace(/-/g, "+").replace(/_/g, "/");
    const claims = JSON.parse(new TextDecoder().decode(Uint8Array.from(atob(part), (c) => c.charCodeAt(0))));
    return { token, user: Number(claims.sub), profile: Number(claims.profile), schema: String(claims.schemaName ?? "") };
  } catch {
    return null;
  }
}

export function begin(token: string): void {
  const next = parse(token);
  if (!next) throw new Error("the server sent a token that can't be read");
  try {
    sessionStorage.setItem(key, token);
  } catch {
    // Then the session ends with the page.
  }
  ended.set("");
  session.set(next);
}

export function end(why: "expired" | "left"): void {
  try {
    sessionStorage.removeItem(key);
  } catch {
    // Nothing was stored.
  }
  ended.set(why);
  session.set(null);
}
