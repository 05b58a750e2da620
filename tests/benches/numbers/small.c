/* small IN OUT KEY [TEXT]: writes IN, each byte moved by KEY and by the letters of TEXT. A TEXT that
   begins with @ names a file. */
#include <stdio.h>
#include <stdlib.h>

static unsigned char bytes[1 << 22];

static size_t take(const char *path, unsigned char *into, size_t most) {
    FILE *file = fopen(path, "rb");
    if (!file) {
        perror(path);
        exit(1);
    }
    size_t count = fread(into, 1, most, file);
    fclose(file);
    return count;
}

int main(int count, char **words) {
    if (count < 4) return 2;
    int key = atoi(words[3]);
    if (count > 4) {
        static unsigned char text[1 << 16];
        const unsigned char *letters = (const unsigned char *)words[4];
        if (letters[0] == '@') {
            take(words[4] + 1, text, sizeof text - 1);
            letters = text;
        }
        for (; *letters; letters++) key += *letters;
    }
    size_t size = take(words[1], bytes, sizeof bytes);
    for (size_t at = 0; at < size; at++) bytes[at] += key;
    FILE *out = fopen(words[2], "wb");
    if (!out || fwrite(bytes, 1, size, out) != size || fclose(out)) {
        perror(words[2]);
        return 1;
    }
    return 0;
}
