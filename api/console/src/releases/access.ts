// Who may see releases: the token of the server's configuration, which nobody logs in with.

import { Failure, send } from "../api";
import { store } from "../store";

const key = "tsmon.releases";

/** The token, empty where the server asks for none. It lives in memory and in this tab's storage. */
export const releasesToken = store<string>(restore());

/** Whether the last token was refused. */
export const refused = store(false);

function restore(): string {
  try {
    return sessionStorage.getItem(key) ?? "";
  } catch {
    return "";
  }
}

export function giveToken(token: string): void {
  try {
    if (token) sessionStorage.setItem(key, token);
    else sessionStorage.removeItem(key);
  } catch {
    // Then it ends with the page.
  }
  refused.set(false);
  releasesToken.set(token);
}

/** Asks a route of releases. */
export async function ask<T>(path: string, body?: unknown, signal?: AbortSignal): Promise<T> {
  const token = releasesToken.get();
  try {
    return await send<T>({ method: body === undefined ? "GET" : "POST", path: "releases/" + path, body, ...(token && { token }), ...(signal && { signal }) });
  } catch (error) {
    if (error instanceof Failure && error.status === 401 && token === releasesToken.get()) refused.set(token !== "");
    throw error;
  }
}
