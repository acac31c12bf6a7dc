/**
 * The removal of secrets from commands, before they are hashed, queued, spooled or sent. The same content has the same bytes each time,
 * as long as the known secrets stay.
 */
import { type RedactedContent, redactContent } from "../../integrity/redaction/content.ts";
import { KnownSecrets } from "../../integrity/redaction/known-secrets.ts";
import { FleetError } from "../../protocol/errors.ts";
import { countsOf, type RedactedPart } from "../../protocol/redaction-report.ts";
import type { CommandOp } from "../../protocol/subjects.ts";
import type { Logger } from "../../runtime/observability/log.ts";
import { ConfigError, type Environment } from "../../runtime/settings/config.ts";
import { knownSecrets, type RedactionMode, type RedactionSettings } from "./secret-settings.ts";

export interface RedactionParts {
  readonly mode: RedactionMode;
  readonly settings: RedactionSettings;
  /** Its secrets are removed. Empty for a service, which has none of the agents' secrets. */
  readonly env: Environment;
  readonly log: Logger | undefined;
}

/** A command whose secrets are removed, as it is sent. */
export interface RedactedCommand {
  readonly body: object;
  /** At most 100 parts, for the answer. */
  readonly redacted: readonly RedactedPart[];
}

const REPORTED_MAX = 100;

export class Redaction {
  readonly #parts: RedactionParts;
  /** Commands are sent in the order of the calls, although the search of a short one takes less time. */
  #last: Promise<unknown> = Promise.resolve();
  #known: { readonly values: string; readonly secrets: KnownSecrets } | undefined;

  /** Throws ConfigError. */
  constructor(parts: RedactionParts) {
    this.#parts = parts;
    if (parts.mode !== "off") this.#knownSecrets();
  }

  /** `wanted`: the choice for this command. */
  isOn(wanted: RedactionMode | undefined): boolean {
    if (wanted === "on" || wanted === "off") return wanted === "on";
    return wanted === "automatic" ? this.#parts.mode !== "off" : this.#parts.mode === "on";
  }

  /**
   * `body`: a command. The versions of an import have the hashes of their origin, so they stay. Throws INTERNAL if the content cannot be
   * searched: then nothing is written.
   */
  command(op: CommandOp, taskId: string, body: object): Promise<RedactedCommand> {
    const before = this.#last;
    const own = this.#command(op, taskId, body);
    this.#last = Promise.all([before, own.catch(() => {})]);
    return before.then(() => own);
  }

  async #command(op: CommandOp, taskId: string, body: object): Promise<RedactedCommand> {
    if (op.startsWith("import_")) return { body, redacted: [] };
    const { content, report }: RedactedContent<object> = await redactContent(body, this.#knownSecrets());
    if (report.length === 0) return { body: content, redacted: [] };
    const rules = countsOf(report);
    this.#parts.log?.info({ op, task_id: taskId, secrets: report.length, rules }, "secrets removed");
    return { body: { ...content, redactions: rules }, redacted: report.slice(0, REPORTED_MAX) };
  }

  /** Read each time, because a program may load variables, and an operator may change the file, after the start. */
  #knownSecrets(): KnownSecrets {
    const { settings, env } = this.#parts;
    try {
      const values = knownSecrets(settings, env);
      const text = JSON.stringify(values);
      if (this.#known?.values !== text) this.#known = { values: text, secrets: new KnownSecrets(values) };
      return this.#known.secrets;
    } catch (error) {
      if (this.#known === undefined || !(error instanceof ConfigError)) throw error;
      throw new FleetError("INTERNAL", "the known secrets cannot be read; nothing was written", {
        details: { problems: error.problems },
      });
    }
  }
}
