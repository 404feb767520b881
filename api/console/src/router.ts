import { store } from "./store";

/** A place in the console: the part of the address after #. */
export interface Route {
  path: string[];
  query: URLSearchParams;
}

export function parseHash(hash: string): Route {
  const [path = "", query = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  return { path: path.split("/").filter(Boolean).map(decode), query: new URLSearchParams(query) };
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export const route = store<Route>(parseHash(location.hash));

addEventListener("hashchange", () => route.set(parseHash(location.hash)));

export function href(path: string, query?: Record<string, string>): string {
  const text = query ? new URLSearchParams(query).toString() : "";
  return "#/" + path + (text && "?" + text);
}

export function go(path: string, query?: Record<string, string>): void {
  location.hash = href(path, query);
}

/** Changes the address without a new entry in the history. */
export function replace(path: string, query?: Record<string, string>): void {
  history.replaceState(null, "", href(path, query));
  route.set(parseHash(location.hash));
}
