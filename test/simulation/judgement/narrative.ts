/** The text of a failed story for its reader: its faults, and in one order what happened to the task whose guarantee was violated. */
import type { CallAttempt, DamageLine, LifecycleLine } from "../../fleet/faults/agents/history.ts";
import type { Entry, Violation } from "../../fleet/faults/checker/evidence.ts";
import type { Story, StoryEvent } from "../story/story.ts";
import type { StoryResult } from "../world/world.ts";

/** `at`: milliseconds since the begin of the faults and the work. */
interface Moment {
  readonly at: number;
  readonly who: string;
  readonly what: string;
}

/** The last characters of an id, which differ. */
const short = (id: string): string => `..${id.slice(-4)}`;
const named = (name: string, value: unknown): string =>
  value === undefined || value === null ? "" : `, ${name} ${value}`;

function faultText(event: StoryEvent): string {
  switch (event.kind) {
    case "kill":
      return `${event.program} is killed, and starts again after ${event.restartMs} ms`;
    case "cut":
      return `the connection of ${event.program} breaks`;
    case "partition":
      return `nothing passes between ${event.program} and the bus for ${event.forMs} ms`;
    case "restart_bus":
      return `the bus is down for ${event.forMs} ms`;
    case "outage":
      return `the store ${event.how === "refuses" ? "refuses every call" : "answers no call"} for ${event.forMs} ms`;
    case "replace_root_key":
      return `the services get a new root key, one every ${event.everyMs} ms`;
    case "power_cut":
      return `${event.machine === "agents" ? "all agents" : "the store and all services"} lose their power for ${event.forMs} ms`;
  }
}

function callMoments(call: CallAttempt, beganUs: number): Moment[] {
  const { op, agent, copy, command_id, fence, expected_version, outcome, code, committed, end } = call;
  const command = command_id === undefined ? "" : ` ${short(command_id)}`;
  const name = `${op}${command}${copy === undefined ? "" : ` (copy: ${copy})`}`;
  const asked = `${name}${named("fence", fence)}${named("if version", expected_version)}`;
  const answer = `${code === undefined ? outcome : `${outcome} ${code}`}${named("fence", committed?.fence)}${named("version", committed?.version)}`;
  return [
    { at: (call.begin - beganUs) / 1_000, who: agent, what: `sends ${asked}` },
    ...(end === Number.POSITIVE_INFINITY
      ? []
      : [{ at: (end - beganUs) / 1_000, who: agent, what: `${name}: ${answer}` }]),
  ];
}

function entryMoment(entry: Entry): Moment {
  const { seq, op, command_id, version, fence, state_to, owner_to, reason } = entry;
  const command = command_id === null ? "" : ` ${short(command_id)}`;
  const facts = `${named("version", version)}, fence ${fence}, ${state_to}${named("owner", owner_to)}${named("reason", reason)}`;
  return { at: Date.parse(entry.at), who: `entry ${seq}`, what: `${op}${command}${facts}` };
}

const lifecycleMoment = ({ at, agent, what, fence }: LifecycleLine): Moment => {
  return { at, who: agent, what: `${what}, fence ${fence}` };
};

const damageMoment = ({ wall, checkpoint_id, version }: DamageLine): Moment => {
  const what = `the stored bytes of checkpoint ${short(checkpoint_id)} version ${version} change`;
  return { at: wall, who: "fault", what };
};

/** What happened to a task. */
function momentsOf(task: string | null, { evidence, began }: StoryResult): Moment[] {
  const { attempts, lifecycle, damages, finalState } = evidence;
  const byWall = (moment: Moment): Moment => ({ ...moment, at: moment.at - began.wall });
  return [
    ...attempts.filter((call) => call.task === task).flatMap((call) => callMoments(call, began.us)),
    ...lifecycle
      .filter((line) => line.task === task)
      .map(lifecycleMoment)
      .map(byWall),
    ...damages
      .filter((line) => line.task === task)
      .map(damageMoment)
      .map(byWall),
    ...(finalState.tasks.get(task ?? "")?.entries ?? []).map(entryMoment).map(byWall),
  ];
}

const percent = (share: number): string => `${(share * 100).toFixed(1)} %`;

/** The faults with a probability. */
function constantFaults({ bus, store, killShare }: Story): string[] {
  const { latencyMs: _latency, stallMs: _stall, pauseMs: _pause, ...shares } = store;
  return [
    ...Object.entries(bus).map(([name, value]) => [`bus ${name}`, value] as const),
    ...Object.entries(shares).map(([name, value]) => [`store ${name}`, value] as const),
    ["kill points", killShare] as const,
  ].flatMap(([name, value]) => (typeof value === "number" && value > 0 ? [`${name} ${percent(value)}`] : []));
}

/** The violation and its task: that of `kind`, if there is one. */
const chosen = ({ violations }: StoryResult, kind: Violation["kind"] | undefined): Violation =>
  violations.find((one) => one.kind === kind && one.task !== null) ??
  violations.find((one) => one.kind === kind) ??
  violations[0]!;

/** The lines of a story that failed. `kind`: of the violation that matters. */
export function narrative(story: Story, result: StoryResult, kind?: Violation["kind"]): string[] {
  const violation = chosen(result, kind);
  const faults = story.events.map((event) => ({
    ...{ at: event.at, who: "fault" },
    what: faultText(event),
  }));
  const moments = [...faults, ...momentsOf(violation.task, result)].sort((a, b) => a.at - b.at);
  const width = Math.max(0, ...moments.map(({ who }) => who.length));
  const constant = constantFaults(story);
  return [
    `${violation.kind}: ${violation.text}`,
    `  ${JSON.stringify(violation.details)}`,
    `agents take ${story.steps.join(", ")} steps, workers ${story.tasks} tasks, agents of a runner ${story.launched}, a healthy agent ${story.healthyMs} ms, an operator ${story.acts} acts${story.removes ? ", and retention is on" : ""}`,
    ...(constant.length > 0 ? [`all the time: ${constant.join(", ")}`] : []),
    ...(violation.task === null ? [] : [`the task ${violation.task}:`]),
    ...moments.map(({ at, who, what }) => {
      const seconds = (at / 1_000).toFixed(3).padStart(8);
      return `  ${seconds} s  ${who.padEnd(width)}  ${what}`;
    }),
  ];
}
