/** Does the work when its turn has come. */
export type InTurn = <T>(work: () => Promise<T>) => Promise<T>;

/** Lets so many do their work at a time; the others wait in the order of their coming. */
export function takeTurns(most: number): InTurn {
  const waiting: (() => void)[] = [];
  let busy = 0;
  return async (work) => {
    if (busy < most) busy += 1;
    // Whoever leaves hands on its place, so nobody can slip in between.
    else await new Promise<void>((resolve) => waiting.push(resolve));
    try {
      return await work();
    } finally {
      const next = waiting.shift();
      if (next === undefined) busy -= 1;
      else next();
    }
  };
}
