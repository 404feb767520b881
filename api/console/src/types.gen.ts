// Code generated from openapi.yaml by go generate. DO NOT EDIT.

export type Adoption = { channel: string; clients: number; curve: Array<{ clients: number; margin?: number; time: string }> | null; groups: Array<{ clients: number; cohort?: string; target: string; type?: string; version: string }>; last_24_hours: Record<string, number> | null; newest: { crashed: number; failed: number; kept: number; offered: number; running: number; sample?: Sampled; version: string; waiting: number }; rollout?: Record<string, unknown>; sample?: Sampled; version: string; versions: Array<{ clients: number; percent: number; percent_margin?: number; version: string }> };

export type AskedName = string;

export type BatchVariable = { calc?: boolean | null; equation?: string | null; id: ID; name?: unknown | null; status?: unknown | null; type?: string | null; unit?: unknown | null; varsTs?: unknown | null };

export type Bytes = string;

export type Chart = { component?: string; data?: { [member: string]: unknown } | null; id: ID; props?: { [member: string]: unknown } | null; [member: string]: unknown };

export type ChartsAnswer = { data: Array<Chart> };

export type CurvePoint = { clients: number; margin?: number; time: string };

export type Diagram = { backgroundColor: string; backgroundImg: string; id: number; images: Array<Object>; lines: Array<Line>; polylines: Array<Object>; status: number; texts: Array<Object>; title: string; version: number; [member: string]: unknown };

export type DiagramAnswer = { data: Array<Diagram> };

export type DiagramToSave = { deleted?: { images?: Ids; lines?: Ids; polylines?: Ids; texts?: Ids } | null; diagram: { backgroundColor?: string | null; backgroundImg?: string | null; id?: number | null; status?: number | null; title?: string | null; version?: number | null; [member: string]: unknown }; images?: Array<ObjectToSave> | null; lines?: Array<LineToSave> | null; polylines?: Array<ObjectToSave> | null; texts?: Array<ObjectToSave> | null };

export type Downloads = { files: Array<{ blake2b: string; keys: Array<string>; name: string; size: number; url: string }>; pub_date: string; sequence: number; version: string };

export type FailingShare = { count: number; high: number; low: number; of: number; [member: string]: unknown };

export type Failures = Record<string, Message>;

export type GuardOpinion = { before?: string; decision: string; networks?: { failing: number; fetched: number; [member: string]: unknown }; networks_required?: number; verdict: { bar: number; before?: FailingShare; cause?: string; decision: string; failing: FailingShare; first: boolean; limit: number; needed: number; outcomes: number; sentence: string; to_halt?: number; [member: string]: unknown }; version: string; why?: string; [member: string]: unknown };

export type ID = (number) | (string);

export type Ids = Array<number | null> | null;

export type Instant = (number) | (string | null);

export type Line = (LineToSave) & ({ id: number; variable?: { name: string; unit: string | null; varsTs: VarsTs } });

export type LineToSave = { animation?: number | null; id?: number | null; id_tsvars?: OptionalID; invertAnimation?: boolean | null; points?: { end?: Point; start?: Point } | null; status?: number | null; stroke?: string | null; strokeWidth?: number | null; [member: string]: unknown };

export type LogDetail = (LogRow) & ({ changes: Array<{ after: string; before: string; place: string }>; manifest: { [member: string]: unknown }; reach: Array<ReachCell>; reach_cut?: number; rolling?: { [member: string]: unknown } });

export type LogPage = { channel: string; entries: Array<LogRow>; more: boolean };

export type LogRow = { action: string; from?: string; halted?: boolean; needs: number; newest: string; origin?: ReleaseOrigin; pruned?: Array<string>; rollout?: ReleaseShare; sequence: number; signed_by: Array<string>; version: string; when: string; who: string; why?: string };

export type Login = { email: string; schemaName: string; tokenApp: string; ts_name: string };

export type Manifest = { critical?: boolean; critical_below?: string; minimum_version?: string; notes: string; platforms: Record<string, { signature: string; url: string }>; pub_date: string; sequence?: number; version: string; watershed?: boolean };

export type Menu = { icon: string; id: number; name: string; path: string; status: boolean };

export type MenusAnswer = { data: Array<Menu> };

export type Message = { message: string };

export type MovePlan = { action: string; changed: boolean; channel: string; followers?: Array<MovePlan>; previous?: string; reach: Array<ReachCell> | null; rollout?: ReleaseShare; sequence: number; unbound?: Array<string>; version: string; warnings?: Array<string>; [member: string]: unknown };

export type NewestCounts = { crashed: number; failed: number; kept: number; offered: number; running: number; version: string; waiting: number; [member: string]: unknown };

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

export type ReachCell = { address: string; bundle?: string; bundle_type?: string; downgrades?: boolean; error?: string; offered?: string; outcome: string; rollout?: string; target: string; version: string };

export type Readiness = { backends: Record<string, string>; concerns: Record<string, string>; status: string };

export type Rehearsal = { command: string; plan?: MovePlan; reach_cut?: number; refusal?: { mend?: string; text: string } };

export type ReleaseChannel = { adoption?: { clients: number; guard?: GuardOpinion; have: number; left?: number; newest: NewestCounts; unserved: Record<string, number> }; approvals?: number; before: string; behind: boolean; channel: string; files: Array<string>; last?: LogRow; missing: Array<string>; newest: string; next_step?: number; platforms: Array<string>; rings?: boolean; rollout?: ReleaseShare; shown: boolean; since?: string; version: string };

export type ReleaseOrigin = { commit?: string; repository?: string; run?: string };

export type ReleaseShare = { cohorts?: Array<string>; due?: string; every?: string; paused: boolean; percent: number; since: string; steps: Array<number>; version: string; [member: string]: unknown };

export type ReleaseSpread = { channel: string; clients: number; groups: Array<{ clients: number; cohort?: string; target: string; type?: string; version: string; [member: string]: unknown }>; guard?: GuardOpinion; history: Array<{ points: Array<CurvePoint>; version: string }>; last_24_hours?: Record<string, number> | null; newest: NewestCounts; rollout?: ReleaseShare; version: string; versions: Array<{ clients: number; percent: number; version: string; [member: string]: unknown }>; [member: string]: unknown };

export type ReleaseVersion = { bundles: Array<{ blake2b: string; bound: boolean; key_id?: string; keys: Array<string>; name: string; size: number; trusted: boolean }>; notes: string; pub_date: string; version: string; who: string; [member: string]: unknown };

export type ReleaseVersions = { more: number; versions: Array<{ channels: Array<string>; date?: string; pruned: boolean; rolled_back: Array<string>; rollouts: Record<string, number>; size: number; staged: Array<string>; version: string }> };

export type ReleasesOverview = { alarms: Array<{ object: string; problem: string; since: string }>; away?: string; channels: Array<ReleaseChannel>; rehearses: boolean };

export type Sampled = { margin: number; of_network?: number; share: number };

export type SavedAnswer = { data: { id: number; success: Success; version: number }; success: Success };

export type SeriesAnswer = { data: Record<string, Array<SeriesPoint>> };

export type SeriesName = string;

export type SeriesPoint = { time: string; ts: number; value: number };

export type SeriesQuery = { field: AskedName; id?: OptionalID; measurement: AskedName; samplingPeriod: string; start?: Instant; stop?: Instant };

export type Share = { allow_missing?: Array<string>; cohorts?: Array<string>; due?: string; every?: string; paused: boolean; percent: number; since: string; steps: Array<number> | null; version: string };

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

export type WaitingPlans = { plans: Array<{ command: string; entry: LogRow; expires: string; has: number; hash: string; missing: Array<string>; needs: number; signed: Array<string>; stale?: string }> };

export type WantedMove = { every?: string | null; from?: string | null; move: string; reason?: string | null; steps?: Array<number | null> | null; to?: string | null };
