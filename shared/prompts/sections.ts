// The sections of a prompt, each a list of raw texts from a checkpoint. They are counted, cleaned and cut elsewhere.

import type { Checkpoint } from "../protocol/checkpoint.ts";
import { utilizationOf } from "../protocol/triggers.ts";
import { WORKSPACE_FINDINGS, type WorkspaceDrift } from "../protocol/workspace.ts";

export const SECTIONS = [
  "next_action",
  "goal",
  "current_step",
  "workspace",
  "blockers",
  "remaining",
  "side_effects",
  "decisions",
  "constraints",
  "note",
  "rollback",
  "accomplished",
  "assumptions",
  "dependencies",
  "files",
  "artifacts",
  "verification",
  "mission",
  "progress",
  "phase",
  "time",
] as const;
export type SectionName = (typeof SECTIONS)[number];

/** The path of each section's source in the checkpoint. */
export const FOUND_IN: Readonly<Record<SectionName, string>> = {
  next_action: ".execution_state.resume_pointer",
  goal: ".execution_state.goal",
  current_step: ".execution_state.current_step",
  workspace: ".recovery.workspace",
  blockers: ".execution_state.blocked_items",
  remaining: ".execution_state.pending_items",
  side_effects: ".execution_state.side_effects",
  decisions: ".context_summary.key_decisions",
  constraints: ".context_summary.constraints",
  note: ".recovery.continuation_prompt",
  rollback: ".recovery.rollback_instructions",
  accomplished: ".execution_state.completed_items",
  assumptions: ".context_summary.assumptions",
  dependencies: ".context_summary.external_dependencies",
  files: ".metrics.files_modified",
  artifacts: ".artifacts",
  verification: ".verification",
  mission: ".fleet",
  progress: ".metrics",
  phase: ".execution_state.resume_pointer.phase",
  time: ".metadata.timestamp",
};

export type Contents = Readonly<Record<SectionName, readonly string[]>>;

type State = Checkpoint["execution_state"];
interface Item {
  readonly title: string;
  readonly blocker?: unknown;
  readonly notes?: unknown;
  readonly files_created?: readonly string[] | undefined;
  readonly files_modified?: readonly string[] | undefined;
}
type Part = Readonly<Record<string, unknown>>;

/** What a style shows. */
interface Shown {
  readonly sections: ReadonlySet<SectionName>;
  /** Items begin with a box, which is ticked if they are completed. */
  readonly isChecklist: boolean;
}

export function contentsOf(
  checkpoint: Checkpoint,
  drift: WorkspaceDrift | undefined,
  { sections, isChecklist }: Shown,
): Contents {
  const { execution_state: state, context_summary: context, recovery } = checkpoint;
  const mission = checkpoint.fleet?.recovery_context ?? {};
  const box = (text: string, tick: string) => (isChecklist ? `[${tick}] ${text}` : text);
  return {
    next_action: nextAction(state),
    goal: goalOf(checkpoint),
    current_step: [...currentStep(state), ...some(mission.last_action)],
    workspace: (drift?.findings ?? []).map(findingText),
    blockers: [
      ...state.blocked_items.map(itemText),
      ...texts(mission.blockers),
      ...some(failingTests(checkpoint)),
    ],
    remaining: [...state.pending_items.map(itemText), ...texts(mission.next_steps)].map((text) =>
      box(text, " "),
    ),
    side_effects: (state.side_effects ?? []).map(sideEffectText),
    decisions: context.key_decisions.map(decisionText),
    constraints: context.constraints,
    // A generated one says what the other sections do.
    note: recovery.continuation_prompt_source === undefined ? some(recovery.continuation_prompt) : [],
    rollback: some(recovery.rollback_instructions),
    accomplished: state.completed_items.map((item) => box(itemText(item), "x")),
    assumptions: context.assumptions,
    dependencies: context.external_dependencies,
    files: filesOf(checkpoint),
    artifacts: artifactsOf(checkpoint),
    verification: verificationOf(checkpoint),
    mission: missionOf(checkpoint.fleet),
    progress: progressOf(checkpoint),
    // The provenance has the phase and the time too, so a style without these sections leaves nothing out.
    phase: sections.has("phase") ? some(state.resume_pointer?.phase ?? state.phase) : [],
    time: sections.has("time") ? timeOf(checkpoint) : [],
  };
}

/** The text in a list, or an empty list if there is none. Members outside the schema may have any type. */
const some = (text: unknown): string[] => (typeof text === "string" && text.trim() !== "" ? [text] : []);

const texts = (list: unknown): string[] => (Array.isArray(list) ? list.flatMap(some) : []);

/** The next action or, without one, the best substitute. */
function nextAction(state: State): string[] {
  const { resume_pointer: pointer, current_step: step, pending_items: pending } = state;
  const recorded = some(pointer?.next_action);
  if (recorded.length > 0)
    return [...recorded, ...some(pointer?.current_context).map((text) => `Context: ${text}`)];
  const guess = step?.description ?? (pending[0] && itemText(pending[0])) ?? state.current_focus;
  return some(guess);
}

/** True if the checkpoint names its next action. */
export const hasNextAction = ({ execution_state: state }: Checkpoint): boolean =>
  some(state.resume_pointer?.next_action).length > 0;

function currentStep({ current_step: step, current_focus: focus }: State): string[] {
  const since = step?.started_at === undefined ? "" : ` (since ${step.started_at})`;
  return [
    ...some(step?.description).map((text) => `${text}${since}`),
    ...some(step?.partial_work).map((text) => `Partial work: ${text}`),
    ...(focus === step?.description ? [] : some(focus).map((text) => `Focus: ${text}`)),
  ];
}

function itemText({ title, blocker, notes }: Item): string {
  const because = some(blocker).map((text) => ` (blocked by: ${text})`);
  return [title, ...because, ...some(notes).map((text) => `: ${text}`)].join("");
}

function decisionText({ decision, rationale }: { decision: string; rationale?: string | undefined }): string {
  return [decision, ...some(rationale).map((text) => ` (because: ${text})`)].join("");
}

/** The goal; of a mission without one, its summary. */
function goalOf({ execution_state: state, fleet: mission }: Checkpoint): string[] {
  const goal = some(state.goal);
  return goal.length > 0 ? goal : some(mission?.recovery_context?.mission_summary);
}

function sideEffectText(effect: NonNullable<State["side_effects"]>[number]): string {
  const { id, description, state, result } = effect;
  const outcome =
    state === "completed"
      ? ["completed, do not repeat it", ...some(result).map((text) => `: ${text}`)].join("")
      : "claimed: it may have happened, so verify it before you repeat it";
  return `${id}: ${description} (${outcome})`;
}

/** The time since the work began, if the mission recorded it, and that of the last activity. */
function timeOf({ metadata, fleet: mission }: Checkpoint): string[] {
  const { elapsed_time_ms: elapsed, last_activity_at: last } = mission?.recovery_context ?? {};
  return [
    ...(typeof elapsed === "number" ? [`Elapsed: ${durationText(elapsed)}`] : []),
    `Last activity: ${some(last)[0] ?? metadata.timestamp}`,
  ];
}

/** "1 h 5 min", rounded down to minutes, or to seconds below one. */
export function durationText(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1_000));
  if (seconds < 60) return `${seconds} s`;
  const [hours, minutes] = [Math.floor(seconds / 3_600), Math.floor((seconds % 3_600) / 60)];
  return hours === 0 ? `${minutes} min` : `${hours} h ${minutes} min`;
}

function failingTests({ metrics: { tests_status: tests } }: Checkpoint): string | undefined {
  if (tests === undefined || tests.failed === 0) return undefined;
  return `${tests.failed} of ${tests.passed + tests.failed + tests.skipped} tests fail`;
}

/** All files; those of the last steps come first, because they are needed first. */
function filesOf({ execution_state: state, metrics, recovery, fleet: mission }: Checkpoint): string[] {
  const files = new Map<string, string>();
  const add = (path: string, how: string) => {
    if (!files.has(path)) files.set(path, how);
  };
  for (const path of recovery.workspace?.dirty ?? []) add(path, " (uncommitted)");
  const done: readonly Item[] = state.completed_items.toReversed();
  for (const item of done) {
    for (const path of item.files_created ?? []) add(path, " (created)");
    for (const path of item.files_modified ?? []) add(path, "");
  }
  for (const path of metrics.files_modified.toReversed()) add(path, "");
  for (const path of texts(mission?.recovery_context?.files_modified)) add(path, "");
  for (const { path } of recovery.workspace?.files ?? []) add(path, "");
  return [...files].map(([path, how]) => `${path}${how}`);
}

/** The hash first, because a text that is too long loses its end. */
function artifactsOf({ artifacts }: Checkpoint): string[] {
  // An earlier version of the fleet knew no such field, and kept what an agent wrote into it.
  if (!Array.isArray(artifacts)) return [];
  return artifacts.map(({ sha256, size, name }) => `${sha256} (${size} bytes): ${name}`);
}

function verificationOf({ verification }: Checkpoint): string[] {
  if (verification === undefined) return [];
  return [
    ...verification.criteria.map((one) => `Criterion: ${valueText(one)}`),
    ...verification.results.map((one) => `Result: ${valueText(one)}`),
  ];
}

function progressOf({ execution_state: state, metrics }: Checkpoint): string[] {
  const { tests_status: tests } = metrics;
  const used = utilizationOf(metrics);
  return [
    ...(state.progress_percent === undefined ? [] : [`${state.progress_percent} % done`]),
    ...(tests === undefined
      ? []
      : [`tests: ${tests.passed} passed, ${tests.failed} failed, ${tests.skipped} skipped`]),
    ...(used === undefined ? [] : [`the last agent's context was ${Math.round(used * 100)} % full`]),
  ];
}

/** The members of a mission's context (seed 002) that other sections have. */
const ELSEWHERE: ReadonlySet<string> = new Set([
  "last_action",
  "next_steps",
  "blockers",
  "files_modified",
  "elapsed_time_ms",
  "last_activity_at",
]);

function missionOf(mission: Checkpoint["fleet"]): string[] {
  if (mission === undefined) return [];
  const {
    recovery_context: context = {},
    sorties,
    active_locks: locks,
    pending_messages: messages,
  } = mission;
  return [
    `Mission: ${mission.mission_id}`,
    ...Object.entries(context)
      .filter(([name]) => !ELSEWHERE.has(name))
      .map(([name, value]) => `${name}: ${valueText(value)}`),
    ...sorties.map((one) => `Sortie ${facts(one)}`),
    ...locks.map((one) => `Lock ${facts(one)}`),
    ...messages.map((one) => `Message ${facts(one)}`),
  ];
}

const facts = ({ id, ...rest }: Part): string =>
  [valueText(id), ...Object.entries(rest).map(([name, value]) => `${name}=${valueText(value)}`)].join(", ");

function valueText(value: unknown): string {
  if (Array.isArray(value) && value.every((one) => typeof one === "string")) return value.join("; ");
  return typeof value === "string" ? value : (JSON.stringify(value) ?? "");
}

function findingText({ kind, grade, path, recorded, found }: WorkspaceDrift["findings"][number]): string {
  const about = path === undefined ? "" : ` ${path}`;
  const values = [
    ...some(recorded).map((text) => `recorded ${text}`),
    ...some(found).map((text) => `now ${text}`),
  ].join(", ");
  return `${grade}:${about} ${WORKSPACE_FINDINGS[kind].text}${values === "" ? "" : ` (${values})`}`;
}
