/** Commands that were refused for lack of a right are in the access log, like the queries of the reader. */
import type { Message } from "../../shared/bus/bus.ts";
import type { ServiceAnswer, ServiceRequest } from "../../shared/bus/request/endpoint.ts";
import { FleetError } from "../../shared/protocol/errors.ts";
import { callerOf } from "../../shared/protocol/subjects.ts";
import type { AccessRecorder } from "../../shared/service-host/access-log/access-recorder.ts";
import { requestEntry } from "../../shared/service-host/access-log/request-entry.ts";
import { isCommandOp } from "./commands.ts";

export class RefusalLog {
  readonly #recorder: AccessRecorder;
  readonly #now: () => number;

  constructor(recorder: AccessRecorder, now: () => number) {
    this.#recorder = recorder;
    this.#now = now;
  }

  watch(
    handle: (request: ServiceRequest) => Promise<ServiceAnswer>,
  ): (request: ServiceRequest) => Promise<ServiceAnswer> {
    return async (request) => {
      try {
        return await handle(request);
      } catch (error) {
        if (error instanceof FleetError && error.code === "FORBIDDEN") this.#refused(request, error.code);
        throw error;
      }
    };
  }

  /** Its answer would have gone to another inbox than that of its caller. */
  readonly dropped = (message: Message): void => this.#refused(message, "foreign_reply");

  #refused(request: Pick<ServiceRequest, "subject" | "headers">, reason: string): void {
    const from = callerOf(request.subject);
    if (from === undefined) return;
    const [, , , , task_id = "", op = ""] = request.subject.split(".");
    const known = isCommandOp(op) ? op : "unknown";
    const entry = requestEntry({ ...from, op: `cmd.${known}`, nowMs: this.#now() }, request);
    this.#recorder.refused(from.tenant, { ...entry, outcome: "denied", reason, task_id });
  }
}
