/** Puts a simulated answer in front of a function of Node. */

export type AnyFunction = (...args: unknown[]) => unknown;

/** `answerOf` returns what answers a call. undefined: the call passes to the function that was there before. */
export function replaceCall(
  owner: object,
  name: string,
  answerOf: (args: unknown[]) => (() => unknown) | undefined,
): void {
  const real = Reflect.get(owner, name) as AnyFunction;
  const value = (...args: unknown[]): unknown => {
    const answer = answerOf(args);
    return answer === undefined ? real.apply(owner, args) : answer();
  };
  Object.assign(value, real);
  Object.defineProperty(owner, name, { value, configurable: true, writable: true });
}
