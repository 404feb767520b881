// The routes of the server, as openapi.yaml describes them.

import { end, session } from "./session";
import type {
  BatchVariable, Chart, Diagram, DiagramToSave, Login, Menu, NotifyConfig, Permission, PublishedAnswer, SavedAnswer,
  SeriesPoint, SeriesQuery, Upload, Variable,
} from "./types.gen";

/** An answer other than success; status 0 means that there was none. */
export class Failure extends Error {
  /** wait is after how many seconds to try again, 0 if the server does not say. */
  constructor(readonly status: number, message: string, readonly wait = 0) {
    super(message);
  }
}

export function asFailure(error: unknown): Failure {
  return error instanceof Failure ? error : new Failure(-1, String(error));
}

// The page is served at /console/, the routes beside it.
const base = new URL("../", location.href.split("#")[0]);

/** How long a request may take; the server gives up after 20 s. */
const patience = 25_000;

interface Request {
  method: "GET" | "POST";
  path: string;
  body?: unknown;
  token?: string;
  signal?: AbortSignal;
}

/** Sends a request and returns the decoded answer, or throws a Failure. */
export async function send<T>(r: Request): Promise<T> {
  const headers: Record<string, string> = { Accept: "application/json" };
  if (r.body !== undefined) headers["Content-Type"] = "application/json";
  if (r.token) headers.Authorization = "Bearer " + r.token;
  const limit = AbortSignal.timeout(patience);
  const signal = r.signal ? AbortSignal.any([r.signal, limit]) : limit;
  let answer: Response;
  let text: string;
  try {
    const body = r.body === undefined ? null : JSON.stringify(r.body);
    answer = await fetch(new URL(r.path, base), { method: r.method, headers, body, signal, cache: "no-store" });
    text = await answer.text();
  } catch (error) {
    if (r.signal?.aborted) throw error;
    throw new Failure(0, "");
  }
  if (!answer.ok) throw failure(answer, text);
  return JSON.parse(text) as T;
}

/** Joins the messages of an answer as spec.md says. */
function failure(answer: Response, text: string): Failure {
  const { status } = answer;
  const wait = Number(answer.headers.get("Retry-After")) || 0;
  try {
    const body = JSON.parse(text) as Record<string, { message?: string }>;
    const messages = Object.keys(body).sort().map((name) => body[name]?.message ?? "");
    return new Failure(status, messages.filter(Boolean).join(" "), wait);
  } catch {
    return new Failure(status, "", wait);
  }
}

/** Sends with the token. 401 ends the session. */
async function ask<T>(method: "GET" | "POST", path: string, body?: unknown, signal?: AbortSignal): Promise<T> {
  const asking = session.get();
  if (!asking) throw new Failure(401, "");
  try {
    return await send<T>({ method, path, body, token: asking.token, ...(signal && { signal }) });
  } catch (error) {
    if (error instanceof Failure && error.status === 401 && session.get() === asking) end("expired");
    throw error;
  }
}

type Data<T> = { data: T };

async function data<T>(method: "GET" | "POST", path: string, body?: unknown, signal?: AbortSignal): Promise<T> {
  return (await ask<Data<T>>(method, path, body, signal)).data;
}

export async function login(credentials: Login): Promise<string> {
  return (await send<Data<string>>({ method: "POST", path: "loginPartner", body: credentials })).data;
}

export async function demoLogin(): Promise<string> {
  return login(await send<Login>({ method: "POST", path: "console/demo", body: {} }));
}

export const variables = () => data<Variable[]>("GET", "getVarsTs");
export const charts = () => data<Chart[]>("GET", "indicatorCharts");
export const menus = () => data<Menu[]>("GET", "getAllMenu");
export const notifyConfig = () => data<NotifyConfig>("GET", "getConfigNotify");

export function values(batch: BatchVariable[], signal?: AbortSignal): Promise<Record<string, number | null>> {
  return data("POST", "multipleDataTs", batch.map((dataTs) => ({ dataTs })), signal);
}

export function series(queries: SeriesQuery[], signal?: AbortSignal): Promise<Record<string, SeriesPoint[]>> {
  return data("POST", "seriesDataTs", queries, signal);
}

/** A diagram as it is read; one that others may have changed carries its version. */
export type ReadDiagram = Diagram & { version?: number };

export async function diagram(id: number): Promise<ReadDiagram | null> {
  return (await data<ReadDiagram[]>("GET", "getObjectCanva?id=" + id))[0] ?? null;
}

export async function saveDiagram(body: DiagramToSave): Promise<number> {
  return (await ask<SavedAnswer>("POST", "saveDiagram", body)).data.id;
}

export async function publish(topic: string, message: unknown): Promise<PublishedAnswer["data"]> {
  return (await ask<PublishedAnswer>("POST", "sendConfigMQTT", { topic, data: message })).data;
}

export function permissions(type: "id_user" | "id_profile", id: number, profile?: number): Promise<Permission[]> {
  const query = new URLSearchParams({ id: String(id), type });
  if (type === "id_user" && profile !== undefined) query.set("profile", String(profile));
  return data("GET", "getPermission?" + query);
}

/** Uploads a file. Its key pair stands in place of the token. */
export async function upload(file: File, accesskey: string, secretkey: string): Promise<Upload> {
  const body = new FormData();
  body.append("file", file);
  const answer = await fetch(new URL("upload", base), { method: "POST", headers: { accesskey, secretkey }, body });
  const text = await answer.text();
  if (!answer.ok) throw failure(answer, text);
  return (JSON.parse(text) as Data<Upload>).data;
}
