// Code generated from openapi.yaml by go generate. DO NOT EDIT.

export type Adoption = { channel: string; clients: number; curve: Array<{ clients: number; margin?: number; time: string }> | null; groups: Array<{ clients: number; cohort?: string; target: string; type?: string; version: string }>; last_24_hours: Record<string, number> | null; newest: { crashed: number; failed: number; kept: number; offered: number; running: number; sample?: Sampled; version: string; waiting: number }; rollout?: Record<string, unknown>; sample?: Sampled; version: string; versions: Array<{ clients: number; percent: number; percent_margin?: number; version: string }> };

export type AskedName = string;

export type BatchVariable = { calc?: boolean | null; equation?: string | null; id: ID; name?: unknown | null; status?: unknown | null; type?: string | null; unit?: unknown | null; varsTs?: unknown | null };

export type Bytes = string;

export type Chart = { component?: string; data?: { [member: string]: unknown } | null; id: ID; props?: { [member: string]: unknown } | null; [member: string]: unknown };

export type ChartsAnswer = { data: Array<Chart> };

export type Diagram = { backgroundColor: string; backgroundImg: string; id: number; images: Array<Object>; lines: Array<Line>; polylines: Array<Object>; status: number; texts: Array<Object>; title: string; version: number; [member: string]: unknown };

export type DiagramAnswer = { data: Array<Diagram> };

export type DiagramToSave = { deleted?: { images?: Ids; lines?: Ids; polylines?: Ids; texts?: Ids } | null; diagram: { backgroundColor?: string | null; backgroundImg?: string | null; id?: number | null; status?: number | null; title?: string | null; version?: number | null; [member: string]: unknown }; images?: Array<ObjectToSave> | null; lines?: Array<LineToSave> | null; polylines?: Array<ObjectToSave> | null; texts?: Array<ObjectToSave> | null };

export type Downloads = { files: Array<{ blake2b: string; keys: Array<string>; name: string; size: number; url: string }>; pub_date: string; sequence: number; version: string };

export type Failures = Record<string, Message>;

export type ID = (number) | (string);

export type Ids = Array<number | null> | null;

export type Instant = (number) | (string | null);

export type Line = (LineToSave) & ({ id: number; variable?: { name: string; unit: string | null; varsTs: VarsTs } });

export type LineToSave = { animation?: number | null; id?: number | null; id_tsvars?: OptionalID; invertAnimation?: boolean | null; points?: { end?: Point; start?: Point } | null; status?: number | null; stroke?: string | null; strokeWidth?: number | null; [member: string]: unknown };

export type Login = { email: string; schemaName: string; tokenApp: string; ts_name: string };

export type Manifest = { critical?: boolean; critical_below?: string; minimum_version?: string; notes: string; platforms: Record<string, { signature: string; url: string }>; pub_date: string; sequence?: number; version: string; watershed?: boolean };

export type Menu = { icon: string; id: number; name: string; path: string; status: boolean };

export type MenusAnswer = { data: Array<Menu> };

export type Message = { message: string };

export type Notice = { channel?: string; event: string; from?: string; id: string; object?: string; problem?: string; rollout?: Share; sequence?: number; text: string; time: string; version?: string; who?: string; why?: string };

export type NotifyAnswer = { data: NotifyConfig };

export type NotifyConfig = Record<string, Record<string, Record<string, Array<{ alarm: boolean; id: number; id_event_ts: number }>>>>;

export type Object = { id: number; [member: string]: unknown };

export type ObjectToSave = { id?: number | null; [member: string]: unknown };

export type Offer = { critical?: boolean; minimum_version?: string; notes: string; pub_date: string; signature: string; url: string; version: string; watershed?: boolean };

export type OptionalID = (number) | (string | null);

export type Permission = { id: number; id_menu: number; id_profile: number | null; id_user: number | null; status: boolean };

export type PermissionsAnswer = { data: Array<Permission> };

export type Point = { left?: number; top?: number } | null;

export type PublishedAnswer = { data: { matched: boolean; reasonCode: number; success: Success; topic: string }; success: Success };

export type Readiness = { backends: Record<string, string>; concerns: Record<string, string>; status: string };

export type Sampled = { margin: number; of_network?: number; share: number };

export type SavedAnswer = { data: { id: number; success: Success; version: number }; success: Success };

export type SeriesAnswer = { data: Record<string, Array<SeriesPoint>> };

export type SeriesName = string;

export type SeriesPoint = { time: string; ts: number; value: number };

export type SeriesQuery = { field: AskedName; id?: OptionalID; measurement: AskedName; samplingPeriod: string; start?: Instant; stop?: Instant };

export type Share = { cohorts?: Array<string>; due?: string; every?: string; paused: boolean; percent: number; since: string; steps: Array<number> | null; version: string };

export type Success = boolean;

export type TokenAnswer = { data: string };

export type Unauthorized = { error: { code: string; message: string } };

export type Upload = { contentType: string; key: string; name: string; sha256: string; size: number; url: string };

export type UploadAnswer = { data: Upload; success: Success };

export type Value = number | null;

export type ValueAnswer = { data: Record<string, { value: Value }> };

export type ValuesAnswer = { data: Record<string, Value> };

export type Variable = { calc: boolean; equation: string | null; id: ID; name: string; status: boolean; type: string; unit: string | null; varsTs: VarsTs };

export type VariablesAnswer = { data: Array<Variable> };

export type VarsTs = (VarsTsA) | (VarsTsB);

export type VarsTsA = { calc_field?: string | null; field?: string | null; measurement: SeriesName };

export type VarsTsB = Record<string, { calc_field: SeriesName; measure: SeriesName }>;
