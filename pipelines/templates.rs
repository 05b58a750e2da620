// The templates of `throstle init`, in the order of its help. `recipe!` takes the name of a folder
// here, its line in the help, and the files that the user has to add.
&[
    Template {
        variants: &[
            ("vits.toml", include_str!("demo/vits.toml")),
            ("xtts.toml", include_str!("demo/xtts.toml")),
        ],
        data: Some(&DEMO_DATA),
        ..recipe!("demo", "From recordings to a small voice in a minute, recordings included", None)
    },
    Template {
        beside: &[("sentences.txt", include_bytes!("finnish-fish/sentences.txt"))],
        ..recipe!(
            "finnish-fish",
            "A Finnish voice from the weights of openaudio-s1-mini, in four phases",
            Some(
                "put the weights into its `models/openaudio-s1-mini` and the recordings into its `data`"
            )
        )
    },
    Template {
        beside: &[("sentences.txt", include_bytes!("gujarati-mms/sentences.txt"))],
        ..recipe!(
            "gujarati-mms",
            "A Gujarati voice from the weights of MMS, on one T4",
            Some("put the weights into its `models/mms-tts-guj` and the recordings into its `data`")
        )
    },
    Template {
        variants: &[("romanised.toml", include_str!("amharic-xtts/romanised.toml"))],
        beside: &[("sentences.txt", include_bytes!("amharic-xtts/sentences.txt"))],
        ..recipe!(
            "amharic-xtts",
            "An Amharic voice from the weights of XTTS v2, in a script that is new to them",
            Some("put the weights into its `models/xtts-v2` and the recordings into its `data`")
        )
    },
    Template {
        beside: &[("run.ipynb", include_bytes!("kaggle-vits/run.ipynb"))],
        ..recipe!(
            "kaggle-vits",
            "A Finnish voice from the weights of MMS, in sessions on Kaggle's two T4",
            Some("put the weights into its `models/mms-tts-fin` and the recordings into its `data`")
        )
    },
    Template {
        beside: &[("corrections.csv", include_bytes!("long-recordings/corrections.csv"))],
        ..recipe!(
            "long-recordings",
            "Clips with texts from audiobooks or podcasts with subtitles or a script",
            Some(
                "put a recogniser into its `models/recogniser` and the recordings into its `data`"
            )
        )
    },
    Template {
        beside: &[
            ("judges/requirements.txt", include_bytes!("judges/requirements.txt")),
            ("judges/weights.py", include_bytes!("judges/weights.py")),
            ("judges/transcribe.py", include_bytes!("judges/transcribe.py")),
            ("judges/embed.py", include_bytes!("judges/embed.py")),
        ],
        ..recipe!(
            "piper-voice",
            "A published voice of Piper that learns from recordings, with judges",
            Some(
                "put a voice of Piper into its `models/voice`, a recogniser into its \
                 `models/whisper-base` and the recordings into its `data`"
            )
        )
    },
]
