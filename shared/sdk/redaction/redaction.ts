/**
 * The removal of secrets from commands, before they are hashed, queued, spooled or sent. The same content has the same bytes each time,
 * as long as the known secrets stay.
 */
import { type RedactedContent, redactContent } from "../../integrity/redaction/content.ts";
import { KnownSecrets } from "../../integrity/redaction/known-secrets.ts";
import { mapTexts } from "../../integrity/redaction/texts.ts";
import { FleetError } from "../../protocol/errors.ts";
import type { CommandOp } from "../../protocol/operations.ts";
import { countsOf, type RedactedPart } from "../../protocol/redaction-report.ts";
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
  /** Of each task: commands are sent in the order of the calls, although one that is short, or is not searched, takes less time. */
  readonly #last = new Map<string, Promise<unknown>>();
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
   * `body`: a command; it has its secrets removed if `isOn(wanted)`. The versions of an import have the hashes of their origin, so they
   * stay. Throws INTERNAL if the content cannot be searched: then nothing is written.
   */
  command(op: CommandOp, taskId: string, body: object, wanted?: RedactionMode): Promise<RedactedCommand> {
    const before = this.#last.get(taskId);
    const own = this.isOn(wanted) ? this.#command(op, taskId, body) : asItIs(body, before !== undefined);
    // Its failure is thrown at its turn.
    own.catch(() => {});
    const turn = (before ?? Promise.resolve()).then(() => own);
    const ended = turn.then(
      () => {},
      () => {},
    );
    this.#last.set(taskId, ended);
    void ended.then(() => {
      if (this.#last.get(taskId) === ended) this.#last.delete(taskId);
    });
    return turn;
  }

  /** Content that a command has in an encoded form, with its secrets removed if `isOn(wanted)`. Throws INTERNAL as {@link command}. */
  async content<T>(content: T, wanted?: RedactionMode): Promise<RedactedContent<T>> {
    if (!this.isOn(wanted)) return { content, report: [] };
    return redactContent(content, this.#knownSecrets());
  }

  async #command(op: CommandOp, taskId: string, body: object): Promise<RedactedCommand> {
    // The statement has the form that a person signed, and a token without its signature proves nothing.
    if (op.startsWith("import_") || op === "signature_add") return { body, redacted: [] };
    // The path of a lock is the name of a file: another one would lock another file.
    const { path, ...searched } = body as { readonly path?: unknown };
    const isLock = op.startsWith("lock_") && path !== undefined;
    const { content, report }: RedactedContent<object> = await redactContent(
      isLock ? searched : body,
      this.#knownSecrets(),
    );
    const clean = isLock ? { path, ...content } : content;
    if (report.length === 0) return { body: clean, redacted: [] };
    const rules = countsOf(report);
    this.#parts.log?.info({ op, task_id: taskId, secrets: report.length, rules }, "secrets removed");
    return { body: { ...clean, redactions: rules }, redacted: report.slice(0, REPORTED_MAX) };
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

/** `isLater`: it waits for the command before it, so that later changes of the caller must have no effect. */
async function asItIs(body: object, isLater: boolean): Promise<RedactedCommand> {
  return { body: isLater ? mapTexts(body, (text) => text) : body, redacted: [] };
}
