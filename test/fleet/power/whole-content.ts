/** The content of file n: up to three pages. */
export const wholeContent = (n: number): Buffer => Buffer.alloc(100 + ((n * 1_700) % 12_000), `${n} `);
