/** The rights that the server has refused to a connection, for operators: a service with out-of-date credentials lacks some. */

const REMEMBERED_MAX = 50;

export class Refusals {
  readonly #rights = new Set<string>();

  add(operation: string, subject: string): void {
    if (this.#rights.size < REMEMBERED_MAX) this.#rights.add(`${operation} ${publicPart(subject)}`);
  }

  list(): string[] {
    return [...this.#rights];
  }
}

/** Without the ids in the subject, which may be those of any tenant. */
function publicPart(subject: string): string {
  const isInterface = subject.startsWith("$");
  return subject
    .split(".")
    .slice(0, isInterface ? 4 : 2)
    .join(".");
}
