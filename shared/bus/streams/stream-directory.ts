/** The stream of a subject and whether it accepts atomic batches, cached until the next reconnect. */
import type { JetStreamManager } from "@nats-io/jetstream";
import type { Logger } from "../../runtime/observability/log.ts";

interface KnownStream {
  readonly name: string;
  readonly subjects: readonly string[];
  readonly atomic: boolean;
}

const atomicName = (stream: KnownStream | undefined): string | undefined =>
  stream?.atomic ? stream.name : undefined;

export class StreamDirectory {
  readonly #manager: Promise<JetStreamManager>;
  readonly #enabled: () => boolean;
  readonly #log: Logger;
  #known: KnownStream[] = [];

  constructor(manager: Promise<JetStreamManager>, enabled: () => boolean, log: Logger) {
    this.#manager = manager;
    this.#enabled = enabled;
    this.#log = log;
  }

  /** undefined: there is no stream, it accepts no batches, or the lookup is not permitted. */
  atomicStreamOf(subject: string): Promise<string | undefined> | string | undefined {
    if (!this.#enabled()) return undefined;
    const known = this.#known.find(({ subjects }) => subjects.some((pattern) => covers(pattern, subject)));
    return known === undefined ? this.#lookUp(subject).then(atomicName) : atomicName(known);
  }

  forget(): void {
    this.#known = [];
  }

  async #lookUp(subject: string): Promise<KnownStream | undefined> {
    try {
      const { streams } = await this.#manager;
      const { config } = await streams.info(await streams.find(subject));
      const stream = { name: config.name, subjects: config.subjects, atomic: config.allow_atomic === true };
      this.#known.push(stream);
      return stream;
    } catch (error) {
      // This costs only speed: the messages are sent one by one.
      this.#log.debug({ error, subject }, "stream of a subject could not be looked up");
      return undefined;
    }
  }
}

/** Whether a pattern with `*` and `>` matches a subject. */
export function covers(pattern: string, subject: string): boolean {
  const [wanted, tokens] = [pattern.split("."), subject.split(".")];
  for (const [place, token] of wanted.entries()) {
    if (token === ">") return tokens.length > place;
    if (place >= tokens.length || (token !== "*" && token !== tokens[place])) return false;
  }
  return wanted.length === tokens.length;
}
