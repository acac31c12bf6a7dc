/** Subjects: patterns with wildcards, their overlap, and the form under which a stream stores a message. */

export const subjectTokens = (subject: string): string[] => subject.split(".");

export function isMatch(pattern: readonly string[], tokens: readonly string[]): boolean {
  for (const [place, wanted] of pattern.entries()) {
    if (wanted === ">") return tokens.length > place;
    if (place >= tokens.length || (wanted !== "*" && wanted !== tokens[place])) return false;
  }
  return pattern.length === tokens.length;
}

/** Whether a subject can match both patterns. */
export function isOverlap(a: readonly string[], b: readonly string[]): boolean {
  for (let place = 0; ; place += 1) {
    const [one, other] = [a[place], b[place]];
    if (one === undefined || other === undefined) return one === other;
    if (one === ">" || other === ">") return true;
    if (one !== other && one !== "*" && other !== "*") return false;
  }
}

interface Branch<T> {
  readonly next: Map<string, Branch<T>>;
  readonly found: Set<T>;
}

const branch = <T>(): Branch<T> => ({ next: new Map(), found: new Set() });

/** What is registered under patterns, by subject. */
export class SubjectTree<T> {
  readonly #root: Branch<T> = branch();

  add(pattern: string, value: T): void {
    let at = this.#root;
    for (const token of subjectTokens(pattern)) {
      const next = at.next.get(token) ?? branch<T>();
      at.next.set(token, next);
      at = next;
    }
    at.found.add(value);
  }

  remove(pattern: string, value: T): void {
    const path = [this.#root];
    const tokens = subjectTokens(pattern);
    for (const token of tokens) {
      const next = path.at(-1)!.next.get(token);
      if (next === undefined) return;
      path.push(next);
    }
    path.at(-1)!.found.delete(value);
    for (let depth = tokens.length; depth > 0; depth -= 1) {
      const { found, next } = path[depth]!;
      if (found.size > 0 || next.size > 0) return;
      path[depth - 1]!.next.delete(tokens[depth - 1]!);
    }
  }

  /** In the order of registration under each pattern. */
  match(subject: string): T[] {
    const found: T[] = [];
    collect(this.#root, subjectTokens(subject), 0, found);
    return found;
  }
}

function collect<T>(at: Branch<T>, tokens: readonly string[], place: number, found: T[]): void {
  if (place === tokens.length) {
    found.push(...at.found);
    return;
  }
  const rest = at.next.get(">");
  if (rest !== undefined) found.push(...rest.found);
  const any = at.next.get("*");
  if (any !== undefined) collect(any, tokens, place + 1, found);
  const own = at.next.get(tokens[place]!);
  if (own !== undefined) collect(own, tokens, place + 1, found);
}

const FNV_OFFSET = 0x811c9dc5;
const FNV_PRIME = 0x01000193;

/** As nats-server computes it: FNV-1a over the tokens. */
function partitionOf(tokens: readonly string[], count: number): number {
  let hash = FNV_OFFSET;
  for (const byte of Buffer.from(tokens.join(""))) hash = Math.imul(hash ^ byte, FNV_PRIME) >>> 0;
  return hash % count;
}

const FUNCTION = /\{\{(partition|wildcard)\(([\d,]+)\)\}\}/g;

/** The subject under which a stream with a transform stores a message. */
export function transformed(transform: { readonly src: string; readonly dest: string }, subject: string) {
  const [pattern, tokens] = [subjectTokens(transform.src), subjectTokens(subject)];
  if (!isMatch(pattern, tokens)) return subject;
  const wildcards = tokens.filter((_, place) => pattern[place] === "*");
  return transform.dest.replace(FUNCTION, (_, name: string, list: string) => {
    const [first = 0, ...places] = list.split(",").map(Number);
    if (name === "wildcard") return wildcards[first - 1] ?? "";
    return String(
      partitionOf(
        places.map((place) => wildcards[place - 1] ?? ""),
        first,
      ),
    );
  });
}
