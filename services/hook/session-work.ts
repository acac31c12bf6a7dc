/**
 * What the fleet does at one event of a session. The agent's answer comes first; saving follows beside the agent. Every step may be
 * repeated: the same event has the same decision, and its work is saved under the same id.
 */
import { readFileSync } from "node:fs";
import { hostname } from "node:os";
import { checkpointMessage } from "../../shared/prompts/checkpoint-message.ts";
import type { Activity, TurnResult } from "../../shared/protocol/turns.ts";
import type { Logger } from "../../shared/runtime/observability/log.ts";
import { HOOK_VENDORS, type HookVendor } from "../../shared/sdk/hooks/vendors.ts";
import { type FleetClient, FleetError } from "../../shared/sdk/sdk.ts";
import { fleetCallOf } from "./agent-shell.ts";
import { reportCompaction } from "./compacted-missions.ts";
import { continuationOf, isNewContext, taskOf } from "./continuation.ts";
import { type HookEvent, shortHash } from "./event.ts";
import { agentOf, type FleetConnections, type HookAgent } from "./fleet-connections.ts";
import { AS_GIVEN, activityOf, cleanerOf, cleanText } from "./payload/activity.ts";
import { shortensContext } from "./payload/compaction.ts";
import { activityOfTurn, marksOf, redactionNotice } from "./payload/redaction-notice.ts";
import { capturedCheckpoint, saveCommandId } from "./saved-work.ts";

/** A hash, because the name of a machine may have characters that a token may not. */
const MACHINE = shortHash(hostname());

/** The most that the fleet takes. */
const REASON_CHARS = 100;

export interface SessionWorkParts {
  readonly connections: FleetConnections;
  readonly log: Logger;
  /** The file with the checkpoint message. undefined: the built-in one. */
  readonly messageFile: string | undefined;
}

interface Continuation {
  readonly taskId: string;
  readonly text: string | undefined;
  readonly form: HookVendor["context"];
}

export class SessionWork {
  readonly #parts: SessionWorkParts;

  constructor(parts: SessionWorkParts) {
    this.#parts = parts;
  }

  /**
   * Resolves when the fleet has the event and what follows from it. `answer` gets the text for the agent's program, once. Throws a
   * retryable FleetError while the fleet does not answer.
   */
  async handle(event: HookEvent, answer: (text: string) => void): Promise<void> {
    if (event.event === "pre_compact" && !(await shortensContext(event))) return answer("");
    const agent = agentOf(event);
    const { connections } = this.#parts;
    await connections.use(agent, event.env, (client) => this.#handle(client, agent, event, answer));
    if (event.event === "session_end") connections.closeOf(agent, event.env);
  }

  async #handle(
    client: FleetClient,
    agent: HookAgent,
    event: HookEvent,
    answer: (text: string) => void,
  ): Promise<void> {
    const { log } = this.#parts;
    const prompt = earlyPrompt(client, agent, event);
    const result = await this.#record(client, agent, event);
    const { decision, save, session } = result;
    const taskId = agent.taskId ?? session.task_id ?? agent.agentId;
    if (event.event === "session_start") {
      answer(await this.#started(client, agent, event, { ...result, prompt }));
    } else if (decision === "continue") {
      const { promptContext } = HOOK_VENDORS[event.vendor];
      const text = await continuationOf(client, taskId, event);
      answer(this.#continuation(agent, { taskId, text, form: promptContext }));
    } else if (decision === "requested") {
      const { vendor } = event;
      log.info({ agent_id: agent.agentId, task_id: taskId, vendor }, "agent asked for a checkpoint");
      answer(JSON.stringify(HOOK_VENDORS[vendor].ask(this.#message(result, taskId, agent, event))));
    } else {
      answer(noticeOf(event, result));
    }
    // The hook of an error and that of the end run beside each other: the end may be first, and have saved the work.
    if (save || isRateLimit(event)) await this.#save(client, agent, event, { ...result, taskId });
    // After the session's own checkpoint, which would count as activity of the mission.
    if (event.event === "pre_compact") await reportCompaction(client, log, { session, taskId, at: event.at });
  }

  async #record(
    client: FleetClient,
    agent: HookAgent,
    event: HookEvent,
    isContinuedAtPrompt = event.event === "pre_compact" && dropsAnswer(event),
  ): Promise<TurnResult> {
    const task = client.task(agent.taskId ?? agent.agentId);
    const withoutSecrets = <T>(content: T) => task.withoutSecrets(content);
    const activity = await activityOf(event, cleanerOf(withoutSecrets));
    const redacted = await newMarksOf(event, activity);
    if (redacted.length > 0) {
      const facts = { agent_id: agent.agentId, event: event.event, redacted };
      this.#parts.log.info(facts, "marks stand in the place of secrets in what is saved of a session");
    }
    const { reason } = event;
    return client.turnEvent({
      sessionId: event.sessionId,
      event: event.event,
      at: new Date(event.at).toISOString(),
      vendor: event.vendor,
      taskId: agent.taskId,
      folder: event.folder.length <= 240 ? event.folder : undefined,
      machine: MACHINE,
      isCheckpointMessage: event.isCheckpointMessage,
      isContinuation: event.isContinuation,
      reason: reason && (await cleanText(withoutSecrets, "reason", reason, REASON_CHARS)),
      isContinuedAtPrompt,
      activity,
    });
  }

  /** The text for a new session; empty: it continues nothing. */
  async #started(
    client: FleetClient,
    agent: HookAgent,
    event: HookEvent,
    { session, previous, prompt }: TurnResult & { readonly prompt: EarlyPrompt },
  ): Promise<string> {
    const { taskId, continues } = taskOf(event, agent, session, previous);
    const isLater = continues && dropsAnswer(event);
    // Recorded, so that a helper that is started later knows the task of the session.
    if (session.task_id !== taskId || isLater)
      await this.#record(client, { ...agent, taskId }, event, isLater);
    if (!continues || isLater) return "";
    const text = await (prompt ?? continuationOf(client, taskId, event));
    return this.#continuation(agent, { taskId, text, form: HOOK_VENDORS[event.vendor].context });
  }

  /** Empty: the task has no checkpoint. */
  #continuation(agent: HookAgent, { taskId, text, form }: Continuation): string {
    if (text === undefined) return "";
    this.#parts.log.info(
      { agent_id: agent.agentId, task_id: taskId },
      "continuation prompt given to a session",
    );
    return JSON.stringify(form(text));
  }

  #message(
    { session }: TurnResult,
    taskId: string,
    { agentId, agentType, fence }: HookAgent,
    event: HookEvent,
  ): string {
    const { messageFile } = this.#parts;
    const program = fleetCallOf(event);
    return checkpointMessage({
      ...{ taskId, agentType, fence, program },
      agentId: program === undefined ? undefined : agentId,
      document: messageFile === undefined ? undefined : readFileSync(messageFile, "utf8"),
      notice: redactionNotice(activityOfTurn(session, event)),
    });
  }

  async #save(
    client: FleetClient,
    agent: HookAgent,
    event: HookEvent,
    { session, taskId }: TurnResult & { readonly taskId: string },
  ): Promise<void> {
    const { log } = this.#parts;
    const facts = { agent_id: agent.agentId, task_id: taskId, event: event.event };
    const { fence } = agent;
    const task = client.task(taskId, { fence });
    try {
      const { checkpoint: latest } = await task.latest();
      // The agent has said its last word: the task is complete, or handed off.
      if (latest !== null && /^(complete|handoff)$/.test(latest.execution_state.phase)) return;
      const checkpoint = await capturedCheckpoint({ session, event: event.event, agent, latest });
      const outcome = await task.checkpoint(checkpoint, { commandId: saveCommandId(session, event.at) });
      log.info({ ...facts, outcome: outcome.outcome }, "work of the session saved");
      const advised = outcome.outcome === "committed" ? (outcome.handoffAdvised ?? []) : [];
      const reason = isRateLimit(event) ? "rate_limit" : advised[0]?.reason;
      // Only an agent of a runner: in a user's own session, the user decides.
      if (fence === undefined || reason === undefined) return;
      await task.handOff({ reason });
      log.info({ ...facts, reason }, "handoff of the session's task started");
    } catch (error) {
      if (error instanceof FleetError && error.retryable) throw error;
      // Another agent owns the task, or it has ended: its own checkpoints are the newer ones.
      log.warn({ ...facts, error }, "work of the session was not saved");
    }
  }
}

/** The marks of an event without those with a rule that were in it before. */
async function newMarksOf(event: HookEvent, activity: Activity | undefined): Promise<string[]> {
  if (activity === undefined || marksOf(activity).length === 0) return [];
  return marksOf(activity, await activityOf(event, AS_GIVEN));
}

type EarlyPrompt = ReturnType<typeof continuationOf> | undefined;

/** The agent waits: the prompt of a task that a runner gave it is made while the event is recorded. */
function earlyPrompt(client: FleetClient, { taskId }: HookAgent, event: HookEvent): EarlyPrompt {
  const isNeeded = event.event === "session_start" && isNewContext(event) && !dropsAnswer(event);
  if (taskId === undefined || !isNeeded) return undefined;
  const prompt = continuationOf(client, taskId, event);
  // Awaited after the record, which may fail first.
  prompt.catch(() => {});
  return prompt;
}

/**
 * The report of redaction, at a prompt for the model, and at the end of a turn for the user: nothing but a request lets the model read
 * on there. Empty: there is no mark, or the request for a checkpoint of this turn had the report.
 */
function noticeOf(event: HookEvent, { decision, session }: TurnResult): string {
  const { promptContext, notice } = HOOK_VENDORS[event.vendor];
  if (decision === "short_turn" || decision === "no_activity") {
    const text = redactionNotice(activityOfTurn(session, event));
    return text === undefined ? "" : JSON.stringify(notice(text));
  }
  const isPrompt = event.event === "user_prompt_submit" && !event.isCheckpointMessage;
  if (!isPrompt || event.waitMs === 0 || decision !== "recorded") return "";
  const text = redactionNotice({ prompt: session.activity.prompt });
  return text === undefined ? "" : JSON.stringify(promptContext(text));
}

const dropsAnswer = ({ vendor, name, reason = "" }: HookEvent): boolean =>
  HOOK_VENDORS[vendor].events[name]?.dropsAnswerAfter?.includes(reason) === true;

const isRateLimit = ({ event, reason }: HookEvent): boolean =>
  event === "agent_error" && reason === "rate_limit";
