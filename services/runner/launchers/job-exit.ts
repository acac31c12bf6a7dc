/** The exit of an agent, computed from its Job and pods: a pure function. */
import { constants } from "node:os";
import type { V1Job, V1Pod } from "@kubernetes/client-node";
import { AGENT_CONTAINER } from "./job-manifest.ts";
import { type Exit, failedToStart } from "./launcher.ts";

/** A container that waits for one of these reasons never starts. */
const NEVER = new Set([
  "CreateContainerConfigError",
  "CreateContainerError",
  "ErrImageNeverPull",
  "ErrImagePull",
  "ImageInspectError",
  "ImagePullBackOff",
  "InvalidImageName",
  "RunContainerError",
]);
const SIGNAL_CODES = 128;

/** undefined: the agent has not ended. `job` is null if the Job was deleted. `nowIso` stands in for missing times. */
export function jobExit(job: V1Job | null, pods: readonly V1Pod[], nowIso: string): Exit | undefined {
  const state = pods
    .flatMap(({ status }) => status?.containerStatuses ?? [])
    .find(({ name }) => name === AGENT_CONTAINER)?.state;
  const ended = state?.terminated;
  if (ended !== undefined) {
    const signal = ended.signal ?? (ended.exitCode > SIGNAL_CODES ? ended.exitCode - SIGNAL_CODES : 0);
    const name = Object.entries(constants.signals).find(([, value]) => value === signal)?.[0] ?? null;
    return {
      code: name === null ? ended.exitCode : null,
      signal: name,
      // A container runtime that cannot find the program ends the container with this reason before it starts.
      problem:
        ended.reason === "StartError" || ended.reason === "ContainerCannotRun"
          ? (ended.message ?? ended.reason)
          : null,
      outOfMemory: ended.reason === "OOMKilled",
      lost: false,
      startedAt: iso(ended.startedAt) ?? nowIso,
      endedAt: iso(ended.finishedAt) ?? nowIso,
    };
  }
  const waiting = state?.waiting;
  if (waiting?.reason !== undefined && NEVER.has(waiting.reason))
    return failedToStart(
      waiting.message === undefined ? waiting.reason : `${waiting.reason}: ${waiting.message}`,
      nowIso,
    );
  if (job === null) return { ...failedToStart("", nowIso), problem: null, lost: true };
  const failed = job.status?.conditions?.find(({ type, status }) => type === "Failed" && status === "True");
  if (failed === undefined) return undefined;
  const startedAt = iso(job.status?.startTime) ?? nowIso;
  const overdue = failed.reason === "DeadlineExceeded";
  // SIGXCPU is the signal for a process that used up its time.
  return {
    ...failedToStart("", nowIso),
    problem: null,
    startedAt,
    lost: !overdue,
    signal: overdue ? "SIGXCPU" : null,
  };
}

function iso(time: Date | string | undefined): string | undefined {
  return time === undefined ? undefined : new Date(time).toISOString();
}
