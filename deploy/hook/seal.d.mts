/** Throws an Error that repeats no secret. */
export declare function sealedEvent(
  text: string,
  name: string,
  sources: string,
  env: Readonly<Record<string, string | undefined>>,
): string;
